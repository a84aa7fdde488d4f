"""Translates errors of delta-rs and of the disk into the platform's errors, when a table is opened or committed to."""

from __future__ import annotations

import json
import logging
from contextlib import suppress
from pathlib import Path

from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError

from anabranch.core.errors import BrokenState, Conflict
from anabranch.core.storage import path_of, storage_of
from anabranch.lake.log.delta_tables import delta_table, folder_of

log = logging.getLogger(__name__)


def commit_error(table: DeltaTable, error: Exception, read: int) -> Exception:
    """The error to raise for a failed commit: Conflict TABLE_MOVED if another writer has committed since ``table`` was
    read at version ``read``, BrokenState COMMIT_UNWRITTEN if the disk failed, otherwise ``error`` itself (rows that
    don't fit the schema)."""
    if delta_table(table.table_uri).version() > read:
        return table_moved(table.table_uri, read, str(error))
    return commit_unwritten(table.table_uri, table.version(), error)


def commit_unwritten(uri: str, read: int, error: Exception) -> Exception:
    """BrokenState COMMIT_UNWRITTEN for the version after ``read`` (-1: of a table that doesn't exist) if the disk
    failed, otherwise ``error`` itself."""
    if not isinstance(error, OSError | CommitFailedError) and "os error" not in str(error):
        return error
    table = f"the table is at version {read}" if read >= 0 else "there is no table"
    return BrokenState(
        "COMMIT_UNWRITTEN",
        f"{uri}: version {read + 1} can't be written: {error}",
        state=f"nothing of this commit was written; {table}",
        next_step="check that its disk has free space and is writable; the writer tries again by itself",
        table=uri,
        version=read,
    )


def update_after(table: DeltaTable, version: int) -> None:
    """Update ``table`` to ``version``, which was just committed. Doesn't raise: the commit is written, and an error
    would tell its writer otherwise; the next one gets the read error."""
    try:
        table.update_incremental()
    except (DeltaError, OSError) as error:
        log.warning("%s: version %d was written, but can't be read: %s", table.table_uri, version, error)


def table_moved(uri: str, read: int, cause: str = "") -> Conflict:
    return Conflict(
        "TABLE_MOVED",
        f"{uri} was committed to by another writer since version {read}",
        state="nothing of this commit was written",
        next_step="read the newest commit, then decide again",
        version=read,
        cause=cause,
    )


def check_commit(table: DeltaTable) -> None:
    """Raises BrokenState TABLE_UNREADABLE if the newest commit is an empty file, as a power cut leaves it: delta-rs
    takes it for a commit without actions, and numbers all commits before it wrongly."""
    path = folder_of(table) / "_delta_log" / f"{table.version():020d}.json"
    with suppress(FileNotFoundError):  # a checkpoint replaces it
        if not storage_of(path).size(path):
            raise unreadable_table(table.table_uri, ValueError(f"{path} is empty"))


def unreadable_table(uri: str, error: Exception) -> BrokenState:
    """BrokenState TABLE_UNREADABLE, with the paths of torn commits, if there are any."""
    torn = [str(path) for path in _commits(path_of(uri) / "_delta_log") if _torn(path)]
    return BrokenState(
        "TABLE_UNREADABLE",
        f"{uri} can't be opened: {', '.join(torn) + ' is torn' if torn else error}",
        state="nothing was changed",
        next_step="restore the file from a backup; without one, move the table's folder away (of a speed half also the "
        "checkpoint): landing reads the log again, a stream rebuilds its speed half, and anabranch reprocess rebuilds "
        "a batch half",
        table=uri,
        torn=torn,
    )


def unreadable_file(where: str, error: Exception) -> BrokenState:
    """BrokenState FILE_UNREADABLE: a data file is torn, or its disk fails. The doctor reports the same code."""
    return BrokenState(
        "FILE_UNREADABLE",
        f"{where} can't be read: {error}",
        state="nothing was changed",
        next_step="run anabranch doctor: it names each such file and the command that rebuilds it",
        where=where,
    )


def _commits(folder: Path) -> list[Path]:
    try:
        return sorted(folder / name for name in storage_of(folder).names(folder) if name.endswith(".json"))
    except OSError:
        return []


def _torn(path: Path) -> bool:
    """Whether the content of a commit is damaged. One that can't be read (no file handles, a disk that doesn't answer)
    isn't called torn: whoever believed that would restore a table that nothing is wrong with."""
    try:
        lines = storage_of(path).read(path).decode().splitlines()
        return not lines or not all(isinstance(json.loads(line), dict) for line in lines)
    except OSError:
        return False
    except ValueError:
        return True
