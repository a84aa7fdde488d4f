"""Why a table didn't take a commit, or can't be opened, as errors of ours."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from anabranch.core.errors import BrokenState, Conflict


def refused(table: DeltaTable, error: Exception, read: int) -> Exception:
    """Conflict TABLE_MOVED when another writer has committed since ``table`` was read, at version ``read``; BrokenState
    COMMIT_UNWRITTEN where the disk is the reason; what isn't either is ``error`` itself (rows that don't fit)."""
    if DeltaTable(table.table_uri).version() > read:
        return table_moved(table.table_uri, read, str(error))
    if not isinstance(error, OSError | CommitFailedError) and "os error" not in str(error):
        return error
    return BrokenState(
        "COMMIT_UNWRITTEN",
        f"{table.table_uri}: version {table.version() + 1} can't be written: {error}",
        state=f"nothing of this commit was written; the table is at version {table.version()}",
        next_step="see that its disk has space and may be written; whoever wrote tries again by itself",
        table=table.table_uri,
        version=table.version(),
    )


def table_moved(uri: str, read: int, cause: str = "") -> Conflict:
    return Conflict(
        "TABLE_MOVED",
        f"{uri} was committed to by another writer since version {read}",
        state="nothing of this commit was written",
        next_step="read the newest commit and decide again",
        version=read,
        cause=cause,
    )


def check_commit(table: DeltaTable) -> None:
    """BrokenState TABLE_UNREADABLE when the newest commit is an empty file, as a power cut leaves one: delta-rs takes
    it for a commit that did nothing, and numbers all commits before it wrongly."""
    path = _folder(table.table_uri) / "_delta_log" / f"{table.version():020d}.json"
    with suppress(FileNotFoundError):  # a checkpoint stands for it
        if not path.stat().st_size:
            raise unreadable(table.table_uri, ValueError(f"{path} is empty"))


def unreadable(uri: str, error: Exception) -> BrokenState:
    """BrokenState TABLE_UNREADABLE, with the commits that are torn, where it is that."""
    torn = [str(path) for path in sorted((_folder(uri) / "_delta_log").glob("*.json")) if _torn(path)]
    return BrokenState(
        "TABLE_UNREADABLE",
        f"{uri} can't be opened: {', '.join(torn) + ' is torn' if torn else error}",
        state="nothing was changed",
        next_step="put the file back from a copy; without one move the table's folder away, a speed half's with its "
        "checkpoint: landing lands again what the log holds, a stream builds its half again, anabranch reprocess the "
        "batch half",
        table=uri,
        torn=torn,
    )


def unreadable_file(where: str, error: Exception) -> BrokenState:
    """BrokenState FILE_UNREADABLE: a data file is torn, or its disk fails; the doctor calls it by the same name."""
    return BrokenState(
        "FILE_UNREADABLE",
        f"{where} can't be read: {error}",
        state="nothing was changed",
        next_step="anabranch doctor names each such file, and the command that makes it again",
        where=where,
    )


def _torn(path: Path) -> bool:
    try:
        lines = path.read_text().splitlines()
        return not lines or not all(isinstance(json.loads(line), dict) for line in lines)
    except (OSError, ValueError):
        return True


def _folder(uri: str) -> Path:
    return Path(uri.removeprefix("file://"))
