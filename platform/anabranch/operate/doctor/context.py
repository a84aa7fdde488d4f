"""What is examined: tables, each at one version, with their notes; what is declared; the log, if it answers.

Nothing here writes, locks or makes a folder.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import duckdb
import pyarrow as pa
from anabranch.compute.speed.checkpoint_handover import REPLAY, owner_of
from anabranch.contracts import Declarations
from anabranch.core.settings import Settings
from anabranch.lake import Commit, CommitMetadata, Cut, Position, commit_history, latest_commit
from anabranch.lake.commits import open_table
from anabranch.lake.layout import landing_table
from anabranch.lake.table_refs import EVERY, Kind, TableRef, existing_tables
from anabranch.operate.doctor.findings import Finding, failed
from anabranch.views import Registry, View
from deltalake import DeltaTable

__all__ = ["EVERY", "Context", "DataFile", "Kind", "LogOffsets", "TableRef", "TableState", "each", "rows_of"]
LogOffsets = Callable[[str], tuple[Mapping[int, int], Mapping[int, int]]]
"""Where the partitions of a topic begin and end, as the broker says."""
_FOOT = 8
_MAGIC = b"PAR1"


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file that a table's newest version names. ``partition`` is its value as Delta's log has it."""

    path: Path
    size: int
    partition: Any

    def fault(self) -> str | None:
        """Why its rows can't be read; by its size and its first and last bytes."""
        try:
            size = self.path.stat().st_size
            with self.path.open("rb") as file:
                head = file.read(len(_MAGIC))
                file.seek(max(size - _FOOT, 0))
                foot = file.read()
        except FileNotFoundError:
            return "it is gone"
        if size != self.size:
            return f"it has {size} bytes, its commit says {self.size}"
        return None if head == _MAGIC == foot[-len(_MAGIC) :] else "it is no Parquet file"


@dataclass(frozen=True, slots=True)
class TableState:
    """A table at one version. ``notes`` are those of its newest commits, the oldest first; ``whole``: of all that the
    table has ever had."""

    place: TableRef
    table: DeltaTable = field(hash=False)
    notes: Sequence[Commit] = field(hash=False)
    whole: bool

    @property
    def newest(self) -> Commit | None:
        return self.notes[-1] if self.notes else None

    @property
    def current(self) -> Sequence[Commit]:
        """The notes since all rows were replaced last, by the first batch of a new checkpoint or by a whole replay:
        what is wrong with older ones is mended. Only a speed half is replaced as a whole."""
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
        return [DataFile(base / unquote(p), s, d) for p, s, d in zip(paths, sizes, days, strict=True)]

    def readable(self) -> list[DataFile]:
        """Its files; none where one of them can't be read: that is told once, by the check of data files."""
        files = self.files()
        return [] if any(file.fault() for file in files) else files


def _replaces(before: CommitMetadata, after: CommitMetadata) -> bool:
    if REPLAY in after.extra:  # of some days it is under the live stream's own name
        return owner_of(after) != owner_of(before)
    return after.batch.endswith(":0")


@dataclass(frozen=True, slots=True)
class Context:
    """``log`` is None where no broker answers. ``commits``: how many of the newest commits of each table are looked at
    one by one (0: all that its log still holds). ``now``: seconds since 1970."""

    settings: Settings
    declarations: Declarations
    views: Registry
    log: LogOffsets | None = None
    commits: int = 1_000
    now: float = field(default_factory=time.time)
    _held: dict[str, TableState | None] = field(default_factory=dict, init=False, repr=False, compare=False)

    def places(self, *kinds: Kind) -> list[TableRef]:
        """The tables of these kinds that there are."""
        return existing_tables(self.settings, *kinds)

    def held(self, place: TableRef) -> TableState | None:
        """The table at one version, the same for all checks of a look; None when it has gone meanwhile."""
        if place.uri not in self._held:
            self._held[place.uri] = self._open(place)
        return self._held[place.uri]

    def _open(self, place: TableRef) -> TableState | None:
        table = open_table(place.uri)
        if table is None:
            return None
        limit = self.commits or None
        known = list(commit_history(table, limit))
        return TableState(place, table, tuple(reversed(known)), bool(known) and known[-1].version == 0)

    def again(self) -> Context:
        """The same, to be looked at anew."""
        return replace(self)

    def view(self, place: TableRef) -> View | None:
        """The declaration of a half's version, where there is one."""
        found = [v for v in self.views if (v.name, v.version) == (place.name, place.version)]
        return found[0] if found else None

    def landed(self, cut: Cut) -> Cut:
        """Where landing is with the topics of ``cut``, now: asked for after whatever is held to it was read."""
        positions = {}
        for topic in cut.positions:
            committed = latest_commit(landing_table(self.settings, topic))
            found = committed.note.cut.positions.get(topic) if committed else None
            positions[topic] = found or Position(0, {})
        return Cut(positions)


def each(
    *kinds: Kind,
) -> Callable[[Callable[[Context, TableState], Iterator[Finding]]], Callable[..., Iterator[Finding]]]:
    """A check of every table of these kinds: one that can't be read is a finding, and the others are looked at."""

    def made(look: Callable[[Context, TableState], Iterator[Finding]]) -> Callable[[Context], Iterator[Finding]]:
        def over_all(platform: Context) -> Iterator[Finding]:
            for place in platform.places(*kinds):
                try:
                    held = platform.held(place)
                    yield from look(platform, held) if held is not None else ()
                except Exception as error:  # whatever is on disk: it is told, and the next table is looked at
                    yield failed(f"{place} ({place.uri})", error)

        return over_all

    return made


@cache
def _database() -> duckdb.DuckDBPyConnection:
    """In memory, and empty: to open one takes longer than to ask it."""
    return duckdb.connect()


def rows_of(files: Sequence[DataFile]) -> duckdb.DuckDBPyConnection:
    """A connection in which ``rows`` is every row of these files (at least one), with its file as ``filename``."""
    connection = _database().cursor()
    connection.execute("set timezone = 'UTC'")
    listed = ", ".join("'" + str(file.path).replace("'", "''") + "'" for file in files)
    read = f"read_parquet([{listed}], union_by_name=true, filename=true, hive_partitioning=false)"
    connection.execute(f"create temp view rows as select * from {read}")  # noqa: S608 - the files of our own tables, quoted
    return connection
