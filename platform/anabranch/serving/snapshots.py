"""What a table holds at its newest commit: the files of each partition, found from the Delta log alone.

Handles are kept per process and moved forward by the new commits only (0.3 ms when there is none; opening a
table costs 6 ms). A snapshot is a value: what is read from it doesn't change when the table does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from threading import Lock

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from anabranch.tables import Committed, covering
from anabranch.tables.commits import open_table
from anabranch.views.definition import CHANGED, EMPTIED, PARTITION


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One table, pinned. ``epochs`` holds the newest epoch of the rows of a partition, or of their being gone (speed
    tables only).

    The partition None is the whole of a kappa view, or rows whose partition column is null.
    """

    uri: str
    version: int
    newest: Committed
    schema: pa.Schema = field(hash=False)
    files: Mapping[date | None, tuple[str, ...]] = field(hash=False)
    epochs: Mapping[date | None, int] = field(hash=False)


class _Handle:
    """A table that is open, and the snapshot of its newest version. Not thread-safe: ``snapshot`` holds a lock."""

    def __init__(self, uri: str, table: DeltaTable) -> None:
        self.uri = uri
        self.table = table
        self.snapshot: Snapshot | None = None
        self.epochs: dict[str, int] = {}

    def forward(self) -> Snapshot:
        self.table.update_incremental()
        if self.snapshot is None or self.snapshot.version != self.table.version():
            self.snapshot = _snapshot_of(self.uri, self.table, self.epochs)
        return self.snapshot


_handles: dict[str, _Handle] = {}
_lock = Lock()


def snapshot(uri: str) -> Snapshot | None:
    """The table at ``uri`` at its newest commit; None where there is no table."""
    with _lock:
        handle = _handles.get(uri)
        if handle is not None:
            try:
                return handle.forward()
            except DeltaError:  # its log was cleaned up, or the table was made again
                forget(uri)
        table = open_table(uri)
        if table is None:
            return None
        _handles[uri] = _Handle(uri, table)
        return _handles[uri].forward()


def forget(uri: str) -> None:
    """The next snapshot opens the table anew."""
    _handles.pop(uri, None)


def _snapshot_of(uri: str, table: DeltaTable, known: dict[str, int]) -> Snapshot:
    committed = covering(table)
    assert committed is not None  # noqa: S101 - the table is open, and without a note it raises
    actions = pa.table(table.get_add_actions(flatten=True))
    days = actions[f"partition.{PARTITION}"] if f"partition.{PARTITION}" in actions.column_names else None
    partitions = days.to_pylist() if days is not None else [None] * actions.num_rows
    schema = pa.schema(table.schema().to_arrow())
    paths = [f"{uri}/{path}" for path in actions["path"].to_pylist()]
    if CHANGED in schema.names:
        known |= {path: _newest_epoch(path) for path in paths if path not in known}
        for gone in known.keys() - set(paths):
            del known[gone]
    files: dict[date | None, tuple[str, ...]] = {}
    epochs: dict[date | None, int] = {}
    for partition, path in zip(partitions, paths, strict=True):
        files[partition] = (*files.get(partition, ()), path)
        epochs[partition] = max(epochs.get(partition, 0), known.get(path, 0))
    for day, epoch in committed.note.extra.get(EMPTIED, {}).items():
        epochs.setdefault(date.fromisoformat(day), epoch)
    return Snapshot(uri, table.version(), committed, schema, files, epochs)


def _newest_epoch(path: str) -> int:
    """The newest epoch in a file: from its footer, because the statistics in the log are optional."""
    footer = pq.read_metadata(path)
    index = footer.schema.names.index(CHANGED)
    bounds = [footer.row_group(group).column(index).statistics for group in range(footer.num_row_groups)]
    if all(b is not None and b.has_min_max for b in bounds):
        return max((int(b.max) for b in bounds), default=0)
    return int(pc.max(pq.read_table(path, columns=[CHANGED])[CHANGED]).as_py() or 0)
