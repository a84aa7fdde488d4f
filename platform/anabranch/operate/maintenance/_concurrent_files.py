"""Lists files below a folder that others change meanwhile. Files that disappear are skipped."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path


def stats(folder: Path, *, skip: Collection[str] = ()) -> Iterator[tuple[Path, os.stat_result]]:
    """Yields every file below ``folder``. Links are included and not followed; folders named in ``skip`` are left
    out."""
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in skip]
        for name in names:
            with suppress(FileNotFoundError):
                path = Path(place, name)
                yield path, path.lstat()


def in_folder(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yields the entries of the folder itself."""
    for path in sorted(folder.iterdir()):
        with suppress(FileNotFoundError):
            yield path, path.lstat()


def size(path: Path) -> int:
    """The bytes of a file, or of all files below a folder."""
    with suppress(FileNotFoundError):
        return sum(stat.st_size for _, stat in stats(path)) if path.is_dir() else path.lstat().st_size
    return 0


def touched(folder: Path) -> float:
    """The time of the last write in the folder (seconds since 1970); 0 if it doesn't exist."""
    with suppress(FileNotFoundError):
        return max([folder.lstat().st_mtime, *(stat.st_mtime for _, stat in stats(folder))])
    return 0.0
