"""Whether landing holds every offset once, and every event once: its rows against themselves and its newest note."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb

from anabranch.doctor.commits import rebuilt
from anabranch.doctor.findings import Finding, Severity
from anabranch.doctor.looking import Held, Platform, each, rows_of
from anabranch.landing.verify import DOUBLED, horizon_us
from anabranch.tables import notes

_GAPS = """
select "partition", before + 1, "offset", epoch from (
    select "partition", "offset", epoch, lag("offset") over (partition by "partition" order by "offset") as before
    from rows where released_from is null)
where "offset" > before + 1 order by 1, 2
"""
_AGAIN = """
select "partition", min("offset"), count(*), list(distinct epoch order by epoch) from (
    select "partition", "offset", unnest(list(epoch)) as epoch from rows where released_from is null
    group by 1, 2 having count(*) > 1)
group by 1 order by 1
"""
_ENDS = 'select "partition", max("offset") + 1 from rows where released_from is null group by 1 order by 1'


@each("landing")
def offsets(_: Platform, held: Held) -> Iterator[Finding]:
    """OFFSET_MISSING, OFFSET_TWICE, OFFSET_END: one finding for each partition and kind."""
    files = held.readable()
    if not files or held.newest is None:
        return
    with rows_of(files) as rows:
        ends = dict(rows.execute(_ENDS).fetchall())
        gaps, again = rows.execute(_GAPS).fetchall(), rows.execute(_AGAIN).fetchall()
    landed_to = held.newest.note.cut.positions[held.place.name].offsets
    short = {p: end for p, end in ends.items() if end != landed_to.get(p)}
    lost = _lost(held) if gaps or short else {}
    yield from _missing(held, gaps, lost)
    for partition, first, count, epochs in again:
        where = f"{held.place}, partition {partition}, offset {first}, epochs {', '.join(map(str, epochs))}"
        yield Finding("OFFSET_TWICE", where, f"{count} rows share offsets that are landed already", rebuilt(held.place))
    for partition, end in short.items():
        until = landed_to.get(partition, 0)
        if max([end, *(b for a, b in lost.get(partition, ()) if a >= end)]) != until:
            what = f"the newest note says that it was landed to {until}, its rows end at {end}"
            where = f"{held.place}, partition {partition}, version {held.table.version()}"
            yield Finding("OFFSET_END", where, what, rebuilt(held.place))


def _missing(
    held: Held, gaps: list[tuple[int, int, int, int]], lost: dict[int, list[tuple[int, int]]]
) -> Iterator[Finding]:
    """The first gap of each partition that no accepted loss explains."""
    told = set()
    for partition, start, end, epoch in gaps:
        left = (
            end - start - sum(min(b, end) - max(a, start) for a, b in lost.get(partition, ()) if a < end and b > start)
        )
        if left <= 0 or partition in told:
            continue
        told.add(partition)
        # The note of a loss that was accepted goes with the log's oldest commits.
        older = not held.whole and start < _oldest_offset(held, partition)
        yield Finding(
            "OFFSET_MISSING",
            f"{held.place}, partition {partition}, offsets {start} to {end - 1}, before epoch {epoch}",
            f"{left} offsets are in no row"
            + (" (or were given up before the oldest commit that is kept)" if older else ""),
            f"anabranch landing verify {held.place.name}; {rebuilt(held.place)}",
            Severity.DOUBTFUL if older else Severity.BROKEN,
        )


def _lost(held: Held) -> dict[int, list[tuple[int, int]]]:
    """The ranges that a person has given up, by partition."""
    found: dict[int, list[tuple[int, int]]] = {}
    for committed in notes(held.table):
        for loss in committed.note.extra.get("lost", ()):
            found.setdefault(loss["partition"], []).append((loss["from"], loss["to"]))
    return found


def _oldest_offset(held: Held, partition: int) -> int:
    oldest = [committed.note.cut for committed in notes(held.table)][-1]
    return oldest.positions[held.place.name].offsets.get(partition, 0)


@each("landing")
def events(platform: Platform, held: Held) -> Iterator[Finding]:
    """EVENT_TWICE: two valid rows of one (source, id) within the topic's horizon."""
    topic = platform.declarations.topics.get(held.place.name)
    files = held.readable()
    if topic is None or not files:
        return
    with rows_of(files) as rows:
        found = _doubled(rows, horizon_us(topic))
    if found:
        source, event_id, partition, offset, epoch = found[0]
        where = f"{held.place}, partition {partition}, offset {offset}, epoch {epoch}"
        what = f"{len(found)} rows are valid though their event was landed before, the first: {source} {event_id}"
        yield Finding("EVENT_TWICE", where, what, rebuilt(held.place))


def _doubled(rows: duckdb.DuckDBPyConnection, within_us: int) -> list[tuple[str, str, int, int, int]]:
    return rows.execute(DOUBLED, [within_us]).fetchall()
