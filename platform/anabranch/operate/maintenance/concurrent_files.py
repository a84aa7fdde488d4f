"""Files below a folder that others write to, link in and delete from meanwhile: what is gone is passed over."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path


def stats(folder: Path, *, skip: Collection[str] = ()) -> Iterator[tuple[Path, os.stat_result]]:
    """Every file below ``folder``, links among them and not followed; none below folders called as ``skip`` says."""
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in skip]
        for name in names:
            with suppress(FileNotFoundError):
                path = Path(place, name)
                yield path, path.lstat()


def in_folder(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """The files of a folder itself."""
    for path in sorted(folder.iterdir()):
        with suppress(FileNotFoundError):
            yield path, path.lstat()


def size(path: Path) -> int:
    """Of a file, or of all below a folder, in bytes."""
    with suppress(FileNotFoundError):
        return sum(stat.st_size for _, stat in stats(path)) if path.is_dir() else path.lstat().st_size
    return 0


def touched(folder: Path) -> float:
    """When anything in it was written last (seconds since 1970); 0 where there is nothing."""
    with suppress(FileNotFoundError):
        return max([folder.lstat().st_mtime, *(stat.st_mtime for _, stat in stats(folder))])
    return 0.0
