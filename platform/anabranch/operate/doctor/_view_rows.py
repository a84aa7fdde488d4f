"""Checks the rows of a view's halves: one per key, in the right partition, not beyond the table's cut."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import date
from pathlib import Path

from anabranch.compute.speed.checkpoint_handover import REPLAY, owner_of
from anabranch.lake import latest_commit
from anabranch.lake.cut import Cut
from anabranch.lake.layout import TableRef, VersionRef
from anabranch.lake.streams.stream_checkpoint import checkpoint_id
from anabranch.operate.doctor._commits import how_to_rebuild
from anabranch.operate.doctor._context import Context, TableState, each, rows_of
from anabranch.operate.doctor._findings import Finding, Severity
from anabranch.views.model.definition import changed_columns

_EPOCH_DAY = date(1970, 1, 1).toordinal()
_HANDOVER_SECONDS = 0.2
"""During a handover the live checkpoint has no name, for as long as a rename takes."""


@each("speed", "batch")
def keys(context: Context, state: TableState) -> Iterator[Finding]:
    """KEY_TWICE: two rows with the same key in a declared view."""
    view, files = context.view(state.place), state.readable()
    if view is None or not files:
        return
    columns = ", ".join(_quoted(column) for column in view.key)
    query = f"select count(*) as n, {columns} from rows group by all having count(*) > 1 order by all"  # noqa: S608
    with rows_of(files) as rows:
        found = rows.execute(query).fetchall()
    if found:
        key = ", ".join(f"{name} = {value}" for name, value in zip(view.key, found[0][1:], strict=True))
        where = f"{state.place} ({state.place.uri}), {key}"
        yield Finding(
            "KEY_TWICE",
            where,
            f"{len(found)} keys have several rows, this one has {found[0][0]}",
            how_to_rebuild(state.place),
        )


@each("speed", "batch")
def partitions(context: Context, state: TableState) -> Iterator[Finding]:
    """ROW_MISPLACED: a row whose day isn't that of its partition."""
    view, files = context.view(state.place), state.readable()
    if view is None or view.partition_by is None or not files:
        return
    column = _quoted(view.partition_by)
    with rows_of(files) as rows:
        kind = str(rows.execute(f"select {column} from rows limit 0").description[0][1])  # noqa: S608
        day = (
            f"date_diff('day', date '1970-01-01', {column})" if kind == "DATE" else f"epoch_us({column}) // 86400000000"
        )
        query = f"select filename, min({day}), max({day}), count(*) - count({column}) from rows group by 1"  # noqa: S608
        days = {Path(name): (low, high, nulls) for name, low, high, nulls in rows.execute(query).fetchall()}
    for file in files:
        low, high, nulls = days.get(file.path, (None, None, 0))
        own = _ordinal(file.partition)
        if own is not None and (nulls or not low == high == own - _EPOCH_DAY):
            there = "no day" if low is None or nulls else " to ".join(str(_day(n)) for n in dict.fromkeys((low, high)))
            what = f"rows of {there} are in the partition {file.partition}"
            yield Finding("ROW_MISPLACED", f"{state.place}: {file.path}", what, how_to_rebuild(state.place))
            return


@each("speed")
def row_epochs(context: Context, state: TableState) -> Iterator[Finding]:
    """MARK_BEYOND: a row was changed by an epoch that the table doesn't cover. If a replay published days, which may
    have been ahead of the table's cut, the row is compared with landing instead."""
    files, cut = state.readable(), state.newest.note.cut if state.newest else Cut()
    here = set(state.table.schema().to_arrow().names)
    columns = {topic: column for topic, column in changed_columns(cut.positions).items() if column in here}
    if not files or not columns:
        return
    with rows_of(files) as rows:
        maxima = ", ".join(f"max({_quoted(column)})" for column in columns.values())
        found = rows.execute(f"select {maxima} from rows").fetchone() or ()  # noqa: S608
    replayed = any(REPLAY in committed.note.extra for committed in state.notes) or not state.whole
    known = context.landed(cut) if replayed else cut
    for (topic, column), mark in zip(columns.items(), found, strict=True):
        if mark is not None and mark > known.epoch(topic):
            where = f"{state.place} ({state.place.uri}), column {column}"
            what = f"a row was changed by epoch {mark} of {topic}, but the table covers {known}"
            yield Finding("MARK_BEYOND", where, what, how_to_rebuild(state.place))


@each("speed")
def owners(context: Context, state: TableState) -> Iterator[Finding]:
    """OWNER_GONE: the checkpoint that the newest commit names is neither the live one nor a replay's, and no new
    checkpoint is in its first micro-batch."""
    place, committed = state.place, state.newest
    owner = owner_of(committed.note) if committed else ""
    live = VersionRef(context.settings, place.name, place.version).speed_checkpoint
    if owner in ("", "create") or owner in _checkpoints(context, place) or _is_new(live):
        return
    time.sleep(_HANDOVER_SECONDS)
    again = latest_commit(place.uri)
    if again is not None and owner_of(again.note) == owner and owner not in _checkpoints(context, place):
        what = f"the stream of checkpoint {owner} wrote it last, but this checkpoint no longer exists"
        next_step = f"anabranch up: without {live} the stream builds the table again from landing"
        next_step = f"delete {live}, then {next_step}" if live.exists() else next_step
        yield Finding("OWNER_GONE", f"{place} ({place.uri})", what, next_step, Severity.DOUBTFUL)


def _checkpoints(context: Context, place: TableRef) -> set[str]:
    ref = VersionRef(context.settings, place.name, place.version)
    live, found = ref.speed_checkpoint, set()
    for folder in (live, live.with_name(f"{live.name}.before"), *ref.replay_checkpoints.glob("*")):
        with suppress(Exception):  # a folder without an id owns nothing
            found.add(checkpoint_id(folder))
    return found


def _is_new(live: Path) -> bool:
    """Whether a new checkpoint exists that has not completed its first micro-batch."""
    return (live / "metadata").exists() and not any(p.name.isdecimal() for p in (live / "commits").glob("*"))


def _ordinal(day: object) -> int | None:
    if day is None:
        return None
    return (day if isinstance(day, date) else date.fromisoformat(str(day))).toordinal()


def _day(number: int) -> date:
    return date.fromordinal(number + _EPOCH_DAY)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
