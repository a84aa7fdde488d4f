"""What a table holds at its newest commit: the files of each partition, found from the Delta log alone.

Handles are kept per process and moved forward by the new commits only (0.3 ms when there is none; opening a
table costs 6 ms). A snapshot is a value: what is read from it doesn't change when the table does.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from threading import Lock
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from anabranch.core.errors import AnabranchError
from anabranch.lake import Commit, Cut, Position, latest_verified_commit
from anabranch.lake.archived_commits import commit_file
from anabranch.lake.commit_errors import unreadable_file
from anabranch.lake.commits import open_table
from anabranch.views.definition import EMPTIED, PARTITION_DATE, changed_columns

Epochs = dict[str, int]
"""By topic."""
_Commit = tuple[int, int, int] | None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One table, pinned. ``changed`` holds the newest cut at which rows of a partition changed, or went (speed tables
    only).

    The partition None is the whole of a kappa view, or rows whose partition column is null.
    """

    uri: str
    table_id: str
    """Delta's own id of the table: another one was made where this one was deleted."""
    version: int
    newest: Commit
    schema: pa.Schema = field(hash=False)
    files: Mapping[date | None, tuple[str, ...]] = field(hash=False)
    changed: Mapping[date | None, Cut] = field(hash=False)
    log: pa.Table = field(hash=False)
    """What Delta's log says of each data file: its absolute ``path``, ``num_records``, and the structs ``min``, ``max``
    and ``null_count``, which a table whose files have no statistics lacks."""


class _Handle:
    """A table that is open, and the snapshot of its newest version. Not thread-safe: ``snapshot`` holds a lock."""

    def __init__(self, uri: str, table: DeltaTable) -> None:
        self.uri = uri
        self.table = table
        self.snapshot: Snapshot | None = None
        self.epochs: dict[str, Epochs] = {}
        self._commit = _commit_of(uri, table.version())

    def is_here(self) -> bool:
        """Whether the newest commit that this handle knows is the one that the log holds. Otherwise the table was
        deleted, and perhaps made again: delta-rs would read the new one's commits behind the old one's."""
        return self._commit is not None and self._commit == _commit_of(self.uri, self.table.version())

    def forward(self) -> Snapshot:
        self.table.update_incremental()
        if self.snapshot is None or self.snapshot.version != self.table.version():
            self.snapshot = _snapshot_of(self.uri, self.table, self.epochs)
            self._commit = _commit_of(self.uri, self.snapshot.version)
        return self.snapshot


_handles: dict[str, _Handle] = {}
_earlier: OrderedDict[tuple[str, str, int], tuple[Snapshot, _Commit]] = OrderedDict()
"""The last ones that ``snapshot_at`` gave, by table, its id and version, each with its commit's file."""
_EARLIER = 64
_lock = Lock()


def snapshot(uri: str) -> Snapshot | None:
    """The table at ``uri`` at its newest commit; None where there is no table."""
    with _lock:
        handle = _handles.get(uri)
        if handle is not None and handle.is_here():
            try:
                return handle.forward()
            except DeltaError:  # its log was cleaned up
                pass
        forget(uri)
        table = open_table(uri)
        if table is None:
            return None
        _handles[uri] = _Handle(uri, table)
        return _handles[uri].forward()


def snapshot_at(uri: str, table_id: str, version: int) -> Snapshot | None:
    """The table as it was at ``version``; None where it is another table by now, or its log begins behind it."""
    key = uri, table_id, version
    with _lock:
        commit = _commit_of(uri, version)
        if commit is None:
            return None
        if key not in _earlier or _earlier[key][1] != commit:
            try:
                table = DeltaTable(uri, version=version)
                if str(table.metadata().id) != table_id:
                    return None
                _earlier[key] = _snapshot_of(uri, table, {}), commit
            except (DeltaError, OSError, ValueError, AnabranchError):
                return None
            if len(_earlier) > _EARLIER:
                _earlier.popitem(last=False)
        return _earlier[key][0]


def _commit_of(uri: str, version: int) -> _Commit:
    """What tells the file of a commit from all others; None where there is none."""
    try:
        found = commit_file(Path(uri), version).stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def forget(uri: str) -> None:
    """The next snapshot opens the table anew."""
    _handles.pop(uri, None)


def _snapshot_of(uri: str, table: DeltaTable, known: dict[str, Epochs]) -> Snapshot:
    committed = latest_verified_commit(table)
    assert committed is not None  # noqa: S101 - the table is open, and without a note it raises
    actions = pa.table(table.get_add_actions())
    partitions = column_of(actions, "partition", PARTITION_DATE)
    schema = pa.schema(table.schema().to_arrow())
    paths = [f"{uri}/{path}" for path in actions["path"].to_pylist()]
    columns = changed_columns(committed.note.cut.positions)
    columns = {topic: column for topic, column in columns.items() if column in schema.names}
    logged = {topic: column_of(actions, "max", column) for topic, column in columns.items()}
    for number, path in enumerate(paths):
        if columns and path not in known:
            newest = {topic: epochs[number] for topic, epochs in logged.items() if epochs[number] is not None}
            known[path] = newest if newest.keys() == columns.keys() else _newest_epochs(path, columns)
    for gone in known.keys() - set(paths):
        del known[gone]
    files: dict[date | None, tuple[str, ...]] = {}
    changed: dict[date | None, Epochs] = {}
    for partition, path in zip(partitions, paths, strict=True):
        files[partition] = (*files.get(partition, ()), path)
        newest, here = changed.setdefault(partition, {}), known.get(path, {})
        newest |= {topic: max(newest.get(topic, 0), epoch) for topic, epoch in here.items()}
    for day, epochs in committed.note.extra.get(EMPTIED, {}).items():
        changed.setdefault(date.fromisoformat(day), epochs)
    cuts = {day: Cut({t: Position(epoch, {}) for t, epoch in epochs.items()}) for day, epochs in changed.items()}
    log = actions.set_column(actions.column_names.index("path"), "path", pa.array(paths, pa.string()))
    table_id = str(table.metadata().id)
    return Snapshot(uri, table_id, table.version(), committed, schema, files, cuts, log)


def column_of(log: pa.Table, *path: str) -> list[Any]:
    """A column of a log, or a field of one that is a struct, by file; None of each file where there is none."""
    kind: Any = log.schema
    for name in path:
        if name not in kind.names:
            return [None] * log.num_rows
        kind = kind.field(name).type
    return list((pc.struct_field(log[path[0]], list(path[1:])) if path[1:] else log[path[0]]).to_pylist())


def _newest_epochs(path: str, columns: Mapping[str, str]) -> Epochs:
    """The newest epoch of each topic in a file from its footer, where the log has no statistics of it: an older file's,
    or those of a column behind the indexed ones. BrokenState FILE_UNREADABLE."""
    try:
        footer = pq.read_metadata(path)
    except (OSError, pa.ArrowInvalid) as error:
        raise unreadable_file(path, error) from error
    return {topic: _newest(path, footer, column) for topic, column in columns.items()}


def _newest(path: str, footer: pq.FileMetaData, column: str) -> int:
    index = footer.schema.names.index(column)
    bounds = [footer.row_group(group).column(index).statistics for group in range(footer.num_row_groups)]
    if all(b is not None and b.has_min_max for b in bounds):
        return max((int(b.max) for b in bounds), default=0)
    return int(pc.max(pq.read_table(path, columns=[column])[column]).as_py() or 0)
