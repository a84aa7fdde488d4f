"""Checks that landing holds every offset and every event once, by its rows and its newest commit metadata."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb

from anabranch.ingest.landing.audit.verify import DOUBLED, horizon_us
from anabranch.ingest.landing.empty_offsets import (
    BEGIN,
    COUNTS,
    all_losses,
    all_recorded,
    by_partition,
    range_of,
    recorded_ranges,
)
from anabranch.ingest.landing.loaded_files import LANDED_FILES, Loads, wrong_rows
from anabranch.lake import commit_history
from anabranch.operate.doctor._commits import how_to_rebuild
from anabranch.operate.doctor._context import Context, TableState, each, rows_of
from anabranch.operate.doctor._findings import Finding, Severity

_GAPS = """
select "partition", before + 1, "offset", epoch from (
    select "partition", "offset", epoch, lag("offset") over (partition by "partition" order by "offset") as before
    from rows where released_from is null and "partition" >= 0)
where "offset" > before + 1 order by 1, 2
"""
_REPEATS = """
select "partition", min("offset"), count(*), list(distinct epoch order by epoch) from (
    select "partition", "offset", unnest(list(epoch)) as epoch from rows
    where released_from is null and "partition" >= 0 group by 1, 2 having count(*) > 1)
group by 1 order by 1
"""
_SPANS = """
select "partition", min("offset"), max("offset") + 1, arg_min(epoch, "offset")
from rows where released_from is null and "partition" >= 0 group by 1 order by 1
"""
Gap = tuple[int, int, int, int]
"""Partition, first offset, end offset (exclusive), and the epoch of the record that follows."""


@each("landing")
def offsets(_: Context, state: TableState) -> Iterator[Finding]:
    """OFFSET_MISSING, OFFSET_TWICE, OFFSET_END: one finding per partition and kind. Those of files: ``loaded``."""
    files = state.readable()
    if state.newest is None:
        return
    note = state.newest.note
    begin = by_partition(note.extra, BEGIN)
    if not files and (state.files() or not begin):
        return  # the files can't be read, or nothing has landed
    spans, gaps, repeated = dict[int, tuple[int, int, int]](), list[Gap](), list[tuple[Any, ...]]()
    if files:
        with rows_of(files) as rows:
            spans = {p: (first, end, epoch) for p, first, end, epoch in rows.execute(_SPANS).fetchall()}
            gaps, repeated = rows.execute(_GAPS).fetchall(), rows.execute(_REPEATS).fetchall()
    landed_to = note.cut.positions[state.place.name].offsets
    gaps += [(p, begin[p], first, epoch) for p, (first, _, epoch) in spans.items() if begin.get(p, first) < first]
    ends = {p: spans[p][1] if p in spans else begin[p] for p in sorted({*spans, *begin})}
    doubtful = _uncounted(gaps, ends, landed_to, by_partition(note.extra, COUNTS))
    absent = Absent.of(state) if doubtful else Absent({}, {}, {})
    yield from _missing(state, sorted(gap for gap in gaps if gap[0] in doubtful), absent)
    for partition, first, count, epochs in repeated:
        where = f"{state.place}, partition {partition}, offset {first}, epochs {', '.join(map(str, epochs))}"
        yield Finding(
            "OFFSET_TWICE", where, f"{count} rows have offsets that already landed", how_to_rebuild(state.place)
        )
    for partition in doubtful:
        end, until = ends[partition], landed_to.get(partition, 0)
        if end > until or absent.unexplained(partition, end, until):
            what = f"by the newest commit metadata it is landed to {until}, but its rows end at {end}"
            where = f"{state.place}, partition {partition}, version {state.table.version()}"
            yield Finding("OFFSET_END", where, what, how_to_rebuild(state.place))


def _uncounted(
    gaps: Sequence[Gap], ends: Mapping[int, int], landed_to: Mapping[int, int], counts: Mapping[int, int]
) -> list[int]:
    """The partitions whose number of missing offsets isn't the number that was proven to hold no record."""
    lacking = {p: landed_to.get(p, 0) - end for p, end in ends.items()}
    for partition, start, end, _ in gaps:
        lacking[partition] += end - start
    return [p for p, number in lacking.items() if number != counts.get(p, 0) or ends[p] > landed_to.get(p, 0)]


@dataclass(frozen=True, slots=True)
class Absent:
    """Why offsets are in no row. ``known``: the ranges that a person gave up and those that were proven to hold no
    record, as far as commit metadata is kept. ``before``: the position of the oldest kept commit; ``older``: how many
    offsets were proven empty by then. Each call of ``unexplained`` consumes from ``older``."""

    known: Mapping[int, Sequence[tuple[int, int]]]
    before: Mapping[int, int]
    older: dict[int, int]

    @staticmethod
    def of(state: TableState) -> Absent:
        kept = list(commit_history(state.table))
        known = all_recorded(kept)
        for partition, first, until in map(range_of, all_losses(kept)):
            known.setdefault(partition, []).append((first, until))
        oldest = kept[-1].note
        older = by_partition(oldest.extra, COUNTS)
        for partition, first, until in recorded_ranges(oldest):
            older[partition] -= until - first
        return Absent(known, oldest.cut.positions[state.place.name].offsets, older)

    def unexplained(self, partition: int, start: int, end: int) -> int:
        """Returns how many of these offsets have no explanation."""
        overlaps = [min(b, end) - max(a, start) for a, b in self.known.get(partition, ())]
        left = end - start - sum(overlap for overlap in overlaps if overlap > 0)
        counted = max(min(left, self.older.get(partition, 0), self.before.get(partition, 0) - start), 0)
        if counted:
            self.older[partition] -= counted
        return left - counted


def _missing(state: TableState, gaps: Sequence[Gap], absent: Absent) -> Iterator[Finding]:
    """Yields the first unexplained gap of each partition."""
    reported = set()
    for partition, start, end, epoch in gaps:
        left = absent.unexplained(partition, start, end)
        if left <= 0 or partition in reported:
            continue
        reported.add(partition)
        # The record of an accepted loss disappears with the table's oldest commits.
        older = not state.whole and start < absent.before.get(partition, 0)
        yield Finding(
            "OFFSET_MISSING",
            f"{state.place}, partition {partition}, offsets {start} to {end - 1}, before epoch {epoch}",
            f"{left} offsets are in no row" + (" (or were given up before the oldest kept commit)" if older else ""),
            f"anabranch landing verify {state.place.name}; {how_to_rebuild(state.place)}",
            Severity.DOUBTFUL if older else Severity.BROKEN,
        )


@each("landing")
def loaded(_: Context, state: TableState) -> Iterator[Finding]:
    """LOADED_ROWS: the rows of each file that was loaded, by the newest commit metadata."""
    files = state.readable()
    if state.newest is None or not files:
        return
    with rows_of(files) as rows:
        landed = {number: counts for number, *counts in rows.execute(LANDED_FILES).fetchall()}
    for number, what in wrong_rows(Loads.of(state.newest.note.extra), landed):
        where = f"{state.place}, file {number} (partition {-number})"
        yield Finding("LOADED_ROWS", where, what, how_to_rebuild(state.place))


@each("landing")
def events(context: Context, state: TableState) -> Iterator[Finding]:
    """EVENT_TWICE: two events of one (source, id) within the topic's duplicate horizon."""
    topic = context.declarations.topics.get(state.place.name)
    files = state.readable()
    if topic is None or not files:
        return
    with rows_of(files) as rows:
        found = _doubled(rows, horizon_us(topic))
    if found:
        source, event_id, partition, offset, epoch = found[0]
        where = f"{state.place}, partition {partition}, offset {offset}, epoch {epoch}"
        what = f"{len(found)} rows are events although their event had already landed, the first: {source} {event_id}"
        yield Finding("EVENT_TWICE", where, what, how_to_rebuild(state.place))


def _doubled(rows: duckdb.DuckDBPyConnection, within_us: int) -> list[tuple[str, str, int, int, int]]:
    return rows.execute(DOUBLED, [within_us]).fetchall()
