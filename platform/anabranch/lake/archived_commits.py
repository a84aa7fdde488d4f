"""The log of a table in two folders: what readers list at each look, and older commits that few ask for (ADR 0029)."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

LOG: Final = "_delta_log"
OLDER: Final = "_older_commits"
_OF_VERSION: Final = re.compile(r"\.?(\d{20})\..+")
_CHECKPOINT: Final = re.compile(r"(\d{20})\.checkpoint\.parquet")
log = logging.getLogger(__name__)


def commit_name(version: int) -> str:
    return f"{version:020d}.json"


def commit_file(table: Path, version: int) -> Path:
    """Where the commit of ``version`` is, or would be: it may be gone, or in the other folder in a moment."""
    older = table / OLDER / commit_name(version)
    return older if older.exists() else table / LOG / commit_name(version)


def read_commit(table: Path, version: int) -> str:
    """The commit of ``version`` as text. FileNotFoundError where no folder holds it."""
    for folder in (LOG, OLDER):
        with suppress(FileNotFoundError):
            return (table / folder / commit_name(version)).read_text()
    return (table / LOG / commit_name(version)).read_text()  # it was brought back in between


def versions(table: Path) -> list[int]:
    """The commits that are kept, in their order."""
    names = {path.name for folder in (OLDER, LOG) for path in (table / folder).glob("*.json")}
    return sorted(int(name[:-5]) for name in names if name[:-5].isdecimal())


def log_files(table: Path) -> Iterator[tuple[int, Path]]:
    """Every file of a version (commit, checksum, checkpoint, their drafts), in both folders, in the versions' order."""
    yield from sorted(found for folder in (OLDER, LOG) for found in _files_in(table / folder))


def set_aside(table: Path, needed: int | None) -> int:
    """Move all files of versions below a checkpoint: the newest but one, or an older one up to the version ``needed``.

    How many were moved. After a kill in the middle the next call goes on; the log is whole at any time. OSError.
    """
    files = sorted(_files_in(table / LOG))
    checkpoints = [version for version, path in files if _CHECKPOINT.fullmatch(path.name)]
    first = max((version for version in checkpoints[:-1] if needed is None or version <= needed), default=0)
    old = [path for version, path in files if version < first]
    if old:
        (table / OLDER).mkdir(exist_ok=True)
    for path in old:
        with suppress(FileNotFoundError):  # cleaned up meanwhile
            path.rename(table / OLDER / path.name)
    return len(old)


def bring_back(table: Path, needed: int) -> int:
    """Put back what a reader needs who opens the table at version ``needed`` and follows it: all from a checkpoint on.
    How many files came back. OSError."""
    if not (table / OLDER).is_dir() or _opens_at(table, needed):
        return 0
    files = sorted(_files_in(table / OLDER))
    checkpoints = [version for version, path in files if _CHECKPOINT.fullmatch(path.name) and version <= needed]
    first, back = max(checkpoints, default=0), 0
    for version, path in reversed(files):  # from the newest: without a gap at any time
        if version >= first:
            with suppress(FileNotFoundError):
                path.rename(table / LOG / path.name)
                back += 1
    if back:
        log.info("%s: %d files of its log were brought back, for a reader at version %d", table, back, needed)
    return back


def _opens_at(table: Path, version: int) -> bool:
    """Whether the log itself can be opened at ``version``."""
    return any(at <= version and (at == 0 or _CHECKPOINT.fullmatch(p.name)) for at, p in _files_in(table / LOG))


def _files_in(folder: Path) -> Iterator[tuple[int, Path]]:
    for path in folder.iterdir() if folder.is_dir() else ():
        if match := _OF_VERSION.fullmatch(path.name):
            yield int(match[1]), path
