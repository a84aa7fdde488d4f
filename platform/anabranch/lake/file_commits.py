"""Commits that replace some data files of a table with others: a compaction, which changes no row, or a large merge.

delta-rs can only replace whole partitions, so this module writes the commit file itself, as Delta's protocol defines
it: it is created only if no other commit has that version.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote

import pyarrow as pa
from deltalake import DeltaTable

from anabranch.core.errors import BrokenState
from anabranch.core.storage import storage_of
from anabranch.lake._commit_metadata import CommitMetadata, latest_verified_commit
from anabranch.lake.files import StagedFile
from anabranch.lake.log.commit_errors import commit_error, table_moved, update_after
from anabranch.lake.log.commit_log import log_line
from anabranch.lake.log.commit_outcome import commit_or_confirm, new_mark
from anabranch.lake.log.rewrite_commits import MOVED, log_of
from anabranch.lake.log.version_checksum import prepare, publish

_PLAIN = "/=-_.~"
"""Characters, besides letters and digits, that a path in Delta's log holds unescaped."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """A data file of a table's newest version. ``path`` is relative to the table; ``partition`` holds its partition
    values by column, as Delta's log has them."""

    path: str
    size: int
    partition: Mapping[str, str | None] = field(hash=False)


def data_files(table: DeltaTable) -> list[DataFile]:
    """The data files of ``table`` at its version, except those whose path is escaped in Delta's log."""
    actions = pa.table(table.get_add_actions(flatten=True))
    columns = table.metadata().partition_columns
    partitions = [actions[f"partition.{column}"].to_pylist() for column in columns]
    files = zip(actions["path"].to_pylist(), actions["size_bytes"].to_pylist(), *partitions, strict=True)
    return [
        DataFile(path, size, {c: None if v is None else str(v) for c, v in zip(columns, values, strict=True)})
        for path, size, *values in files
        if quote(path, safe=_PLAIN) == path
    ]


def commit_move(table: DeltaTable, gone: Sequence[DataFile], made: Sequence[StagedFile], **said: Any) -> int:
    """Replace ``gone`` by ``made``, which hold the same rows, in the version after that of ``table``; returns the new
    version. ``said`` is added to the commit's metadata, which is copied from the latest commit.

    Conflict TABLE_MOVED: nothing was committed; check again that all files of ``gone`` exist. BrokenState
    COMMIT_UNWRITTEN: nothing either; COMMIT_UNNAMED if another writer has changed rows.
    """
    carried = latest_verified_commit(table)
    if carried is None:
        raise BrokenState(
            "TABLE_GONE",
            f"{table.table_uri} is no longer a table",
            next_step="run anabranch doctor: it says what is missing and how to rebuild it",
        )
    moved = {"version": carried.version, "commit_time_ms": carried.commit_time_ms, **said}
    note = replace(carried.note, extra={**carried.note.extra, MOVED: moved})
    return _commit(table, gone, made, note, "OPTIMIZE", changes_rows=False)


def commit_rewrite(
    table: DeltaTable, gone: Sequence[DataFile], made: Sequence[StagedFile], note: CommitMetadata
) -> int:
    """Replace ``gone`` by ``made``, which hold other rows, in the version after that of ``table``; returns the new
    version. Conflict TABLE_MOVED, BrokenState COMMIT_UNWRITTEN: nothing was committed."""
    return _commit(table, gone, made, note, "MERGE", changes_rows=True)


def _commit(
    table: DeltaTable,
    gone: Sequence[DataFile],
    made: Sequence[StagedFile],
    note: CommitMetadata,
    operation: str,
    *,
    changes_rows: bool,
) -> int:
    mark = new_mark()
    path = log_of(table) / f"{table.version() + 1:020d}.json"
    checksum = prepare(table, made, [file.size for file in gone])
    text = "".join(map(log_line, _actions(note.to_text(mark), gone, made, operation, changes_rows)))

    def commit() -> None:
        if not storage_of(path).create(path, text.encode(), durable=True):
            raise FileExistsError(path)

    try:
        version = commit_or_confirm(table.table_uri, table.version(), mark, commit)
    except FileExistsError as error:
        raise table_moved(table.table_uri, table.version()) from error
    except OSError as error:
        raise commit_error(table, error, table.version()) from error
    publish(checksum)
    update_after(table, version)
    return version


def _actions(
    note: str, gone: Sequence[DataFile], made: Sequence[StagedFile], operation: str, changes_rows: bool
) -> list[dict[str, Any]]:
    now = int(time.time() * 1000)
    metrics = {"numRemovedFiles": str(len(gone)), "numAddedFiles": str(len(made))}
    info = {"timestamp": now, "operation": operation, "operationParameters": {}, "operationMetrics": metrics}
    removes = [
        {
            "remove": {
                "path": file.path,
                "deletionTimestamp": now,
                "dataChange": changes_rows,
                "extendedFileMetadata": True,
                "partitionValues": dict(file.partition),
                "size": file.size,
            }
        }
        for file in gone
    ]
    adds = [
        {
            "add": {
                "path": quote(file.path, safe=_PLAIN),
                "partitionValues": dict(file.partition),
                "size": file.size,
                "modificationTime": now,
                "dataChange": changes_rows,
                "stats": file.stats,
            }
        }
        for file in made
    ]
    return [{"commitInfo": {**info, "isBlindAppend": False, "userMetadata": note}}, *removes, *adds]
