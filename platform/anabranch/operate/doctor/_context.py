"""What the checks read: tables, each at one version with its commit metadata; declarations; the broker, if it answers.

Nothing here writes, takes a lock or creates a folder.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from deltalake import DeltaTable

from anabranch.compute.speed.checkpoint_handover import REPLAY, owner_of
from anabranch.contracts.model.declarations import Declarations
from anabranch.core.settings import Settings
from anabranch.core.storage import storage_of
from anabranch.lake import Commit, CommitMetadata, commit_history, open_table
from anabranch.lake.cut import Cut
from anabranch.lake.landed import landed_cut
from anabranch.lake.layout import EVERY, Kind, TableRef, existing_tables
from anabranch.lake.log.delta_tables import data_path
from anabranch.operate.doctor._findings import Finding, failed
from anabranch.views import Registry, View

__all__ = ["EVERY", "Context", "DataFile", "Kind", "LogOffsets", "TableRef", "TableState", "each", "rows_of"]
LogOffsets = Callable[[str], tuple[Mapping[int, int], Mapping[int, int]]]
"""Returns the begin and end offsets of a topic's partitions, as the broker reports them."""
_FOOT = 8
_MAGIC = b"PAR1"


@dataclass(frozen=True, slots=True)
class DataFile:
    """A data file of a table's newest version. ``partition`` is the value in Delta's log."""

    path: Path
    size: int
    partition: Any

    def fault(self) -> str | None:
        """Why the file can't be read, judged by its size and its first and last bytes; None if it can."""
        try:
            storage = storage_of(self.path)
            size = storage.size(self.path)
            with storage.reading(self.path) as file:
                head = file.read(len(_MAGIC))
                file.seek(max(size - _FOOT, 0))
                foot = file.read()
        except FileNotFoundError:
            return "it is missing"
        if size != self.size:
            return f"it has {size} bytes, but {self.size} by its commit"
        return None if head == _MAGIC == foot[-len(_MAGIC) :] else "it is not a Parquet file"


@dataclass(frozen=True, slots=True)
class TableState:
    """A table at one version. ``notes``: its newest commits with their metadata, oldest first; ``whole``: these are all
    commits that the table ever had."""

    place: TableRef
    table: DeltaTable = field(hash=False)
    notes: Sequence[Commit] = field(hash=False)
    whole: bool

    @property
    def newest(self) -> Commit | None:
        return self.notes[-1] if self.notes else None

    @property
    def current(self) -> Sequence[Commit]:
        """The commits since all rows were last replaced, by the first batch of a new checkpoint or by a full replay;
        faults of older ones no longer matter. Only a speed half is ever replaced as a whole."""
        if self.place.kind != "speed":
            return self.notes
        pairs = zip(self.notes, self.notes[1:], strict=False)
        starts = [n for n, (before, after) in enumerate(pairs, 1) if _replaces(before.note, after.note)]
        return self.notes[starts[-1] :] if starts else self.notes

    def files(self) -> list[DataFile]:
        actions = pa.table(self.table.get_add_actions(flatten=True))
        columns = self.table.metadata().partition_columns
        days = actions[f"partition.{columns[0]}"].to_pylist() if columns else [None] * actions.num_rows
        paths, sizes = actions["path"].to_pylist(), actions["size_bytes"].to_pylist()
        base = Path(self.place.uri)
        return [DataFile(data_path(base, p), s, d) for p, s, d in zip(paths, sizes, days, strict=True)]

    def readable(self) -> list[DataFile]:
        """Returns the files; an empty list if any can't be read, which the data files check reports."""
        files = self.files()
        return [] if any(file.fault() for file in files) else files


def _replaces(before: CommitMetadata, after: CommitMetadata) -> bool:
    if REPLAY in after.extra:  # a replay of some days commits under the live stream's own name
        return owner_of(after) != owner_of(before)
    return after.batch.endswith(":0")


@dataclass(frozen=True, slots=True)
class Context:
    """``log`` is None if no broker answers. ``commits``: how many of the newest commits of each table are checked one
    by one (0: all that its log still holds). ``now``: seconds since 1970."""

    settings: Settings
    declarations: Declarations
    views: Registry
    log: LogOffsets | None = None
    commits: int = 1_000
    now: float = field(default_factory=time.time)
    _states: dict[str, TableState | None] = field(default_factory=dict, init=False, repr=False, compare=False)

    def places(self, *kinds: Kind) -> list[TableRef]:
        """The existing tables of these kinds."""
        return existing_tables(self.settings, *kinds)

    def table_state(self, place: TableRef) -> TableState | None:
        """The table at one version, the same for all checks of a pass; None if it was deleted meanwhile."""
        if place.uri not in self._states:
            self._states[place.uri] = self._open(place)
        return self._states[place.uri]

    def _open(self, place: TableRef) -> TableState | None:
        table = open_table(place.uri)
        if table is None:
            return None
        limit = self.commits or None
        known = list(commit_history(table, limit))
        return TableState(place, table, tuple(reversed(known)), bool(known) and known[-1].version == 0)

    def fresh_copy(self) -> Context:
        """Returns a copy without cached tables, for the second pass."""
        return replace(self)

    def view(self, place: TableRef) -> View | None:
        """The declared view of a half; None if its version isn't declared."""
        found = [v for v in self.views if (v.name, v.version) == (place.name, place.version)]
        return found[0] if found else None

    def landed(self, cut: Cut) -> Cut:
        """Landing's newest cut in the topics of ``cut``. Call it after reading what is compared with it."""
        return landed_cut(self.settings, cut.positions)


def each(
    *kinds: Kind,
) -> Callable[[Callable[[Context, TableState], Iterator[Finding]]], Callable[..., Iterator[Finding]]]:
    """Decorator: runs a check for every table of these kinds. An unreadable table becomes a finding; the others are
    still checked."""

    def decorate(run: Callable[[Context, TableState], Iterator[Finding]]) -> Callable[[Context], Iterator[Finding]]:
        def over_all(context: Context) -> Iterator[Finding]:
            for place in context.places(*kinds):
                try:
                    state = context.table_state(place)
                    yield from run(context, state) if state is not None else ()
                except Exception as error:  # an unreadable table is a finding; the others are still checked
                    yield failed(f"{place} ({place.uri})", error)

        return over_all

    return decorate


@cache
def _database() -> duckdb.DuckDBPyConnection:
    """One empty in-memory database per process: opening one takes longer than a query."""
    return duckdb.connect()


def rows_of(files: Sequence[DataFile]) -> duckdb.DuckDBPyConnection:
    """Returns a connection with a view ``rows`` of all rows of these files (at least one), each with ``filename``."""
    connection = _database().cursor()
    connection.execute("set timezone = 'UTC'")
    listed = ", ".join("'" + str(file.path).replace("'", "''") + "'" for file in files)
    read = f"read_parquet([{listed}], union_by_name=true, filename=true, hive_partitioning=false)"
    connection.execute(f"create temp view rows as select * from {read}")  # noqa: S608 - the files of our own tables, quoted
    return connection
