"""Snapshots of Delta tables: the files of each partition at one commit, read from the Delta log alone.

Each process caches open tables and updates them incrementally (0.3 ms if there is no new commit; opening a table takes
6 ms). A snapshot is immutable: it doesn't change when the table does.
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

from anabranch.core.errors import AnabranchError
from anabranch.core.storage import path_of
from anabranch.lake import Commit, latest_verified_commit, open_table
from anabranch.lake.cut import Cut, Position
from anabranch.lake.files import footer_bounds, parquet_file
from anabranch.lake.log.archived_commits import opens_at
from anabranch.lake.log.commit_errors import unreadable_file, unreadable_table
from anabranch.lake.log.delta_tables import delta_table
from anabranch.serve.half_choice import published_cuts
from anabranch.serve.open_tables import UNREADABLE, CommitId, OpenTable, commit_id
from anabranch.views.model.definition import EMPTIED, PARTITION_DATE, changed_columns

Epochs = dict[str, int]
"""By topic."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One version of a table. ``changed``: the newest cut at which rows of a partition changed or were deleted (speed
    tables only). The partition None is the whole of a kappa view, or rows whose partition column is null.
    """

    uri: str
    table_id: str
    """Delta's table id. It differs if the table was deleted and created again."""
    version: int
    newest: Commit
    schema: pa.Schema = field(hash=False)
    files: Mapping[date | None, tuple[str, ...]] = field(hash=False)
    changed: Mapping[date | None, Cut] = field(hash=False)
    log: pa.Table = field(hash=False)
    """The Delta log's entry of each data file: its absolute ``path``, ``num_records``, and the structs ``min``, ``max``
    and ``null_count``, which are absent if the files have no statistics."""
    _published: Mapping[date, Cut] | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def published(self) -> Mapping[date, Cut]:
        """The cut that each published partition covers (batch tables only). Parsed once: a year of days takes
        milliseconds, and each read and each page asks."""
        if self._published is None:
            object.__setattr__(self, "_published", published_cuts(self.newest.note))
        assert self._published is not None  # noqa: S101 - for the type checker
        return self._published


class _Handle(OpenTable):
    """An open table and the snapshot of its newest version. Not thread-safe: ``snapshot`` holds a lock."""

    def __init__(self, uri: str, table: DeltaTable) -> None:
        super().__init__(uri, table)
        self.snapshot: Snapshot | None = None
        self.epochs: dict[str, Epochs] = {}

    def update(self) -> bool:
        same = super().update()
        if self.snapshot is None or self.snapshot.version != self.table.version():
            self.snapshot = _snapshot_of(self.uri, self.table, self.epochs)
        return same


_handles: dict[str, _Handle] = {}
_earlier: OrderedDict[tuple[str, str, int], tuple[Snapshot, CommitId]] = OrderedDict()
"""Cache of ``snapshot_at`` by table, its id and version, with the identity of its commit."""
_MAX_EARLIER = 64
_lock = Lock()


def snapshot(uri: str) -> Snapshot | None:
    """Return the table at ``uri`` at its newest commit; None if there is no table. Raises BrokenState
    TABLE_UNREADABLE."""
    with _lock:
        handle = _handles.get(uri)
        if handle is not None and handle.is_valid():
            try:
                if handle.update():  # else created again just now
                    return handle.snapshot
            except UNREADABLE:  # old commits of its log were deleted, perhaps
                pass
        forget(uri)
        table = open_table(uri)
        if table is None:
            return None
        _handles[uri] = _Handle(uri, table)
        try:
            _handles[uri].update()
        except UNREADABLE as error:
            forget(uri)
            raise unreadable_table(uri, error) from error
        return _handles[uri].snapshot


def snapshot_at(uri: str, table_id: str, version: int) -> Snapshot | None:
    """Return the table at ``version``; None if it was created again since, or its log doesn't reach back that far.
    Raises BrokenState TABLE_UNREADABLE: what can't be read isn't taken for what isn't there."""
    key = uri, table_id, version
    with _lock:
        commit = commit_id(uri, version)
        if commit is None:
            return None
        if key not in _earlier or _earlier[key][1] != commit:
            try:
                table = delta_table(uri, version)
                if str(table.metadata().id) != table_id:
                    return None
                _earlier[key] = _snapshot_of(uri, table, {}), commit
            except AnabranchError:
                if _is_kept(uri, version):
                    raise
                return None
            except UNREADABLE as error:
                if _is_kept(uri, version):
                    raise unreadable_table(uri, error) from error
                return None
            if len(_earlier) > _MAX_EARLIER:
                _earlier.popitem(last=False)
        return _earlier[key][0]


def _is_kept(uri: str, version: int) -> bool:
    """Return whether the log still has what opens the table at ``version``. Raises BrokenState TABLE_UNREADABLE."""
    try:
        return commit_id(uri, version) is not None and opens_at(path_of(uri), version)
    except OSError as error:
        raise unreadable_table(uri, error) from error


def forget(uri: str) -> None:
    """Drop the cached handle, so that the next snapshot opens the table again."""
    _handles.pop(uri, None)


def _snapshot_of(uri: str, table: DeltaTable, known: dict[str, Epochs]) -> Snapshot:
    commit = latest_verified_commit(table)
    assert commit is not None  # noqa: S101 - the table is open, and a commit without metadata raises
    actions = pa.table(table.get_add_actions())
    partitions = column_of(actions, "partition", PARTITION_DATE)
    schema = pa.schema(table.schema().to_arrow())
    paths = [f"{uri}/{path}" for path in actions["path"].to_pylist()]
    columns = changed_columns(commit.note.cut.positions)
    columns = {topic: column for topic, column in columns.items() if column in schema.names}
    logged = {topic: column_of(actions, "max", column) for topic, column in columns.items()}
    for number, path in enumerate(paths):
        if columns and path not in known:
            newest = {topic: epochs[number] for topic, epochs in logged.items() if epochs[number] is not None}
            known[path] = newest if newest.keys() == columns.keys() else _newest_epochs(path, columns)
    for removed in known.keys() - set(paths):
        del known[removed]
    files: dict[date | None, tuple[str, ...]] = {}
    changed: dict[date | None, Epochs] = {}
    for partition, path in zip(partitions, paths, strict=True):
        files[partition] = (*files.get(partition, ()), path)
        newest, in_file = changed.setdefault(partition, {}), known.get(path, {})
        newest |= {topic: max(newest.get(topic, 0), epoch) for topic, epoch in in_file.items()}
    for day, epochs in commit.note.extra.get(EMPTIED, {}).items():
        changed.setdefault(date.fromisoformat(day), epochs)
    cuts = {day: Cut({t: Position(epoch, {}) for t, epoch in epochs.items()}) for day, epochs in changed.items()}
    log = actions.set_column(actions.column_names.index("path"), "path", pa.array(paths, pa.string()))
    table_id = str(table.metadata().id)
    return Snapshot(uri, table_id, table.version(), commit, schema, files, cuts, log)


def column_of(log: pa.Table, *path: str) -> list[Any]:
    """Return a column of a snapshot's log, or a field of a struct column, per file; None for each file if it is
    absent."""
    kind: Any = log.schema
    for name in path:
        if name not in kind.names:
            return [None] * log.num_rows
        kind = kind.field(name).type
    return list((pc.struct_field(log[path[0]], list(path[1:])) if path[1:] else log[path[0]]).to_pylist())


def _newest_epochs(path: str, columns: Mapping[str, str]) -> Epochs:
    """Read the newest epoch of each topic in a file from its Parquet footer. Needed when the log has no statistics: the
    file is old, or the column is beyond those that Delta indexes. Raises BrokenState FILE_UNREADABLE."""
    try:
        with parquet_file(Path(path)) as file:
            return {topic: _newest(file, column) for topic, column in columns.items()}
    except (OSError, pa.ArrowInvalid) as error:
        raise unreadable_file(path, error) from error


def _newest(file: pq.ParquetFile, column: str) -> int:
    bounds = footer_bounds(file.metadata, column)
    if bounds is not None:
        return int(bounds[1])
    return int(pc.max(file.read(columns=[column])[column]).as_py() or 0)
