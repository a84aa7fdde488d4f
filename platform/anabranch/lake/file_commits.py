"""Replacing some data files of a table by others in one commit: a compaction, which changes no row, or a large merge.

delta-rs can only replace whole partitions, so the commit is written here, as Delta's protocol spells it: its file gets
its name by a link, which fails where another commit has that number.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import pyarrow as pa
from deltalake import DeltaTable

from anabranch.core.errors import BrokenState
from anabranch.lake.commit_errors import table_moved
from anabranch.lake.commit_log import log_line
from anabranch.lake.commit_metadata import CommitMetadata, latest_verified_commit
from anabranch.lake.commit_outcome import new_mark, settled
from anabranch.lake.rewrite_commits import MOVED, log_of
from anabranch.lake.staging import StagedFile
from anabranch.lake.version_checksum import discard, prepare, publish

_PLAIN = "/=-_.~"
"""Beside letters and digits: what a path in Delta's log holds as it is."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """A data file that a table's newest version names. ``path`` is relative to the table, ``partition`` its value as
    Delta's log has it, by column."""

    path: str
    size: int
    partition: Mapping[str, str | None] = field(hash=False)


def held_files(table: DeltaTable) -> list[DataFile]:
    """The data files of the version that ``table`` is at, but those whose path Delta's log spells in another way."""
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
    """Name ``made`` in the place of ``gone``, which hold the same rows, right behind the version that ``table`` is at;
    the new version. ``said`` stands in the commit's note, beside the note that it carries.

    Conflict TABLE_MOVED: nothing was committed, look again whether ``gone`` are all there. BrokenState COMMIT_UNNAMED
    when a stranger has changed rows.
    """
    carried = latest_verified_commit(table)
    if carried is None:
        raise BrokenState(
            "TABLE_GONE",
            f"{table.table_uri} is no table any more",
            next_step="anabranch doctor says what is missing and how to make it again",
        )
    moved = {"version": carried.version, "commit_time_ms": carried.commit_time_ms, **said}
    note = replace(carried.note, extra={**carried.note.extra, MOVED: moved})
    return _commit(table, gone, made, note, "OPTIMIZE", changes_rows=False)


def commit_rewrite(
    table: DeltaTable, gone: Sequence[DataFile], made: Sequence[StagedFile], note: CommitMetadata
) -> int:
    """Name ``made`` in the place of ``gone``, right behind the version that ``table`` is at; the new version. The rows
    are others. Conflict TABLE_MOVED: nothing was committed."""
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
    draft = path.with_name(f".{path.name}.{uuid4().hex}.tmp")
    announced = prepare(table, made, [file.size for file in gone])
    committed = False
    try:
        with draft.open("w", encoding="utf-8") as file:
            file.writelines(map(log_line, _actions(note.to_text(mark), gone, made, operation, changes_rows)))
            file.flush()
            os.fsync(file.fileno())
        settled(table.table_uri, table.version(), mark, lambda: os.link(draft, path))
        committed = True
    except FileExistsError as error:
        raise table_moved(table.table_uri, table.version()) from error
    finally:
        draft.unlink(missing_ok=True)
        if not committed:
            discard(announced)
    publish(announced)
    table.update_incremental()
    return int(path.stem)


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
