"""Checks landing's stored decisions against its own rules: late or on time, released at most once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

import pyarrow as pa

from anabranch.ingest.landing.state import LATENESS
from anabranch.ingest.landing.table.schema import epochs_of_file
from anabranch.lake import Commit, commit_history
from anabranch.operate.doctor._commits import how_to_rebuild
from anabranch.operate.doctor._context import Context, DataFile, TableState, each, rows_of
from anabranch.operate.doctor._findings import Finding, Severity

_LATE = """
with newest as (
    select epoch, max(epoch_us(event_time)) filter (decision <> 'loaded') as us from rows group by epoch),
before as (
    select epoch, max(us) over (order by epoch rows between unbounded preceding and 1 preceding) as w from newest),
judged as (
    select filename, epoch, "partition", "offset", decision, late, epoch_us(event_time) as us, w, known.l as noted
    from rows join before using (epoch) left join known using (epoch)),
ruled as (
    select *, case when decision = 'valid' then coalesce(us < w - coalesce(noted, $declared), false) end as rule
    from judged)
select epoch, filename, count(*), arg_min({"p": "partition", "o": "offset", "late": late, "rule": rule}, "offset"),
    bool_or(noted is null and decision = 'valid' and late is not null and w is not null and not (late and us >= w))
from ruled where late is distinct from rule group by epoch, filename order by epoch, filename
"""
_TWICE = """
select "partition", "offset", count(*), list(distinct epoch order by epoch) from rows
where released_from is not null group by 1, 2 having count(*) > 1 order by 1, 2
"""
_OF_NOTHING = """
select r."partition", r."offset", r.epoch, r.released_from from rows r
where r.released_from is not null and not exists (
    select 1 from rows q where q.decision = 'quarantined' and q.released_from is null
    and q."partition" = r."partition" and q."offset" = r."offset" and q.epoch = r.released_from)
order by 1, 2, 3
"""


@dataclass(frozen=True, slots=True)
class _Wrong:
    """The rows of one file and epoch whose decision differs from the rule. ``unsure``: the L that they were decided by
    is not recorded."""

    epoch: int
    file: str
    count: int
    first: Mapping[str, object]
    unsure: bool


@each("landing")
def late(context: Context, state: TableState) -> Iterator[Finding]:
    """LATE_WRONG: checks every row by ``event_time < W(epoch) - L``, with W computed from the rows and L from the
    epoch's commit metadata. If that is no longer kept, L is the topic's current one and the finding is doubtful. Rows
    in the file of another epoch are left to EPOCH_OF_ROWS."""
    topic, files = context.declarations.topics.get(state.place.name), state.readable()
    if topic is None or not files:
        return
    declared = topic.allowed_lateness // timedelta(microseconds=1)
    wrong = _late(files, _lateness(state.notes, state.place.name), declared)
    if any(rows.unsure for rows in wrong):  # read the table's whole log only if needed
        wrong = _late(files, _lateness(list(commit_history(state.table)), state.place.name), declared)
    if not wrong:
        return
    sure = [rows for rows in wrong if not rows.unsure]
    first, count = (sure or wrong)[0], sum(rows.count for rows in wrong)
    place, names = state.place, {True: "late", False: "on time", None: "neither late nor on time"}
    what = f"{count} rows: the first is stored as {names[first.first['late']]}, by landing's rule it is "  # type: ignore[index]
    what += names[first.first["rule"]]  # type: ignore[index]
    what += (
        "" if sure else " (unless the topic's allowed lateness was different then: no metadata of that time is kept)"
    )
    where = f"{place}, epoch {first.epoch}, partition {first.first['p']}, offset {first.first['o']}: {first.file}"
    yield Finding("LATE_WRONG", where, what, how_to_rebuild(place), Severity.BROKEN if sure else Severity.DOUBTFUL)


def _late(files: Sequence[DataFile], known: Mapping[int, int], declared: int) -> list[_Wrong]:
    schema = pa.schema([("epoch", pa.int64()), ("l", pa.int64())])
    with rows_of(files) as rows:
        rows.register("known", pa.Table.from_pylist([{"epoch": e, "l": us} for e, us in known.items()], schema))
        found = [_Wrong(*row) for row in rows.execute(_LATE, {"declared": declared}).fetchall()]
    return [rows for rows in found if _belongs(rows)]


def _belongs(rows: _Wrong) -> bool:
    span = epochs_of_file(rows.file)
    return span is None or span[0] <= rows.epoch <= span[1]


def _lateness(known: Sequence[Commit], topic: str) -> dict[int, int]:
    """L by epoch, as far as commit metadata records it."""
    found = {}
    for committed in known:
        lateness, epoch = committed.note.extra.get(LATENESS), committed.note.cut.epoch(topic)
        if lateness is not None:
            found[epoch] = int(lateness)
    return found


@each("landing")
def released(_: Context, state: TableState) -> Iterator[Finding]:
    """RELEASED_TWICE: a record was released from quarantine more than once. RELEASED_NOTHING: a released record that
    was not in quarantine in the epoch that it names."""
    files, place = state.readable(), state.place
    if not files:
        return
    with rows_of(files) as rows:
        twice, of_nothing = rows.execute(_TWICE).fetchall(), rows.execute(_OF_NOTHING).fetchall()
    if twice:
        partition, offset, count, epochs = twice[0]
        where = f"{place}, partition {partition}, offset {offset}, epochs {', '.join(map(str, epochs))}"
        more = f"; also {len(twice) - 1} more records" if len(twice) > 1 else ""
        yield Finding(
            "RELEASED_TWICE", where, f"it was released from quarantine {count} times{more}", how_to_rebuild(place)
        )
    if of_nothing:
        partition, offset, epoch, origin = of_nothing[0]
        where = f"{place}, partition {partition}, offset {offset}, epoch {epoch}"
        what = f"it is marked as released from the quarantine of epoch {origin}, but was never in it"
        yield Finding("RELEASED_NOTHING", where, what, how_to_rebuild(place))
