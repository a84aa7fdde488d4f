"""A table's log in two folders: recent commits, which readers list at each poll, and archived ones (ADR 0029)."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from anabranch.core.storage import storage_of

LOG: Final = "_delta_log"
ARCHIVE: Final = "_older_commits"
_OF_VERSION: Final = re.compile(r"\.?(\d{20})\..+")
_CHECKPOINT: Final = re.compile(r"(\d{20})\.checkpoint\.parquet")
log = logging.getLogger(__name__)


def commit_name(version: int) -> str:
    return f"{version:020d}.json"


def commit_file(table: Path, version: int) -> Path:
    """The path of the commit of ``version``; it may not exist, or be moved to the other folder at any moment."""
    older = table / ARCHIVE / commit_name(version)
    return older if storage_of(older).exists(older) else table / LOG / commit_name(version)


def read_commit(table: Path, version: int) -> str:
    """The commit of ``version`` as text. Raises FileNotFoundError if neither folder holds it."""
    storage, name = storage_of(table), commit_name(version)
    for folder in (LOG, ARCHIVE):
        with suppress(FileNotFoundError):
            return storage.read(table / folder / name).decode()
    return storage.read(table / LOG / name).decode()  # it was moved back between the two reads


def versions(table: Path) -> list[int]:
    """The versions whose commits are kept, in order."""
    return sorted(set(kept_versions(table)))


def kept_versions(table: Path) -> Iterator[int]:
    """The same in no order, without a list of them; one whose commit is being moved may come twice."""
    for folder in (ARCHIVE, LOG):
        for name in storage_of(table).names(table / folder):
            if name.endswith(".json") and name[:-5].isdecimal():
                yield int(name[:-5])


def log_files(table: Path) -> Iterator[tuple[int, Path]]:
    """Every file of a version (commit, checksum, checkpoint, their drafts), in both folders, ordered by version."""
    found = ((version, folder, name) for folder in (LOG, ARCHIVE) for version, name in _names_in(table / folder))
    for version, folder, name in sorted(found):
        yield version, table / folder / name


def log_names(table: Path) -> Iterator[tuple[int, str]]:
    """The version and the name of every such file, in no order, one after the other: a long log has millions."""
    for folder in (ARCHIVE, LOG):
        yield from _names_in(table / folder)


def archive_commits(table: Path, needed: int | None) -> int:
    """Archive all files of versions below a checkpoint: the second newest, or an older one that is at most ``needed``.

    Returns how many files were moved. After a kill the next call continues; the log is complete at any time. Raises
    OSError.
    """
    files = sorted(_files_in(table / LOG))
    checkpoints = [version for version, path in files if _CHECKPOINT.fullmatch(path.name)]
    first = max((version for version in checkpoints[:-1] if needed is None or version <= needed), default=0)
    old = [path for version, path in files if version < first]
    for path in old:
        with suppress(FileNotFoundError):  # deleted by maintenance meanwhile
            storage_of(table).move(path, table / ARCHIVE / path.name)
    return len(old)


def restore_commits(table: Path, needed: int) -> int:
    """Move back what a reader needs that opens the table at version ``needed`` and follows it: all files from the last
    checkpoint before it. Returns how many files were moved. Raises OSError."""
    files = sorted(_files_in(table / ARCHIVE))
    if not files or opens_at(table, needed):
        return 0
    checkpoints = [version for version, path in files if _CHECKPOINT.fullmatch(path.name) and version <= needed]
    first, back = max(checkpoints, default=0), 0
    for version, path in reversed(files):  # newest first, so that the log has no gap at any time
        if version >= first:
            with suppress(FileNotFoundError):
                storage_of(table).move(path, table / LOG / path.name)
                back += 1
    if back:
        log.info("%s: moved %d archived files back to its log, for a reader at version %d", table, back, needed)
    return back


def opens_at(table: Path, version: int) -> bool:
    """Whether the log folder alone is enough to open the table at ``version``."""
    return any(at <= version and (at == 0 or _CHECKPOINT.fullmatch(p.name)) for at, p in _files_in(table / LOG))


def _files_in(folder: Path) -> Iterator[tuple[int, Path]]:
    return ((version, folder / name) for version, name in _names_in(folder))


def _names_in(folder: Path) -> Iterator[tuple[int, str]]:
    for name in storage_of(folder).names(folder):
        if match := _OF_VERSION.fullmatch(name):
            yield int(match[1]), name
