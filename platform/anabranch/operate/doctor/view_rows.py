"""Whether the rows of a view's halves stand where they should: once by key, in their partition, up to their cut."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import date
from pathlib import Path

from anabranch.compute.speed.checkpoint_handover import REPLAY, owner_of
from anabranch.lake import Cut, latest_commit
from anabranch.lake.layout import replay_checkpoints, speed_checkpoint
from anabranch.lake.stream_checkpoint import checkpoint_id
from anabranch.operate.doctor.commits import rebuilt
from anabranch.operate.doctor.context import Context, TableRef, TableState, each, rows_of
from anabranch.operate.doctor.findings import Finding, Severity
from anabranch.views.definition import changed_columns

_EPOCH_DAY = date(1970, 1, 1).toordinal()
_HANDOVER_SECONDS = 0.2
"""Between two names a checkpoint has none, for as long as a rename takes."""


@each("speed", "batch")
def keys(platform: Context, held: TableState) -> Iterator[Finding]:
    """KEY_TWICE: two rows of one key, of a view that is declared."""
    view, files = platform.view(held.place), held.readable()
    if view is None or not files:
        return
    columns = ", ".join(_quoted(column) for column in view.key)
    query = f"select count(*) as n, {columns} from rows group by all having count(*) > 1 order by all"  # noqa: S608
    with rows_of(files) as rows:
        found = rows.execute(query).fetchall()
    if found:
        key = ", ".join(f"{name} = {value}" for name, value in zip(view.key, found[0][1:], strict=True))
        where = f"{held.place} ({held.place.uri}), {key}"
        yield Finding(
            "KEY_TWICE", where, f"{len(found)} keys have several rows, this one {found[0][0]}", rebuilt(held.place)
        )


@each("speed", "batch")
def partitions(platform: Context, held: TableState) -> Iterator[Finding]:
    """ROW_MISPLACED: a row whose day isn't that of the partition that it lies in."""
    view, files = platform.view(held.place), held.readable()
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
            what = f"rows of {there} lie in the partition {file.partition}"
            yield Finding("ROW_MISPLACED", f"{held.place}: {file.path}", what, rebuilt(held.place))
            return


@each("speed")
def row_epochs(platform: Context, held: TableState) -> Iterator[Finding]:
    """MARK_BEYOND: a row says that it changed in an epoch that the table does not cover. Where a replay has put days in
    place, which may have been ahead of readers, it is held to landing instead."""
    files, cut = held.readable(), held.newest.note.cut if held.newest else Cut()
    here = set(held.table.schema().to_arrow().names)
    columns = {topic: column for topic, column in changed_columns(cut.positions).items() if column in here}
    if not files or not columns:
        return
    with rows_of(files) as rows:
        asked = ", ".join(f"max({_quoted(column)})" for column in columns.values())
        found = rows.execute(f"select {asked} from rows").fetchone() or ()  # noqa: S608
    replayed = any(REPLAY in committed.note.extra for committed in held.notes) or not held.whole
    known = platform.landed(cut) if replayed else cut
    for (topic, column), mark in zip(columns.items(), found, strict=True):
        if mark is not None and mark > known.epoch(topic):
            where = f"{held.place} ({held.place.uri}), column {column}"
            what = f"a row was changed by epoch {mark} of {topic}, the table covers {known}"
            yield Finding("MARK_BEYOND", where, what, rebuilt(held.place))


@each("speed")
def owners(platform: Context, held: TableState) -> Iterator[Finding]:
    """OWNER_GONE: the checkpoint that the newest commit names is neither the live one nor a replay's, and no new one is
    at its first micro-batch."""
    place, committed = held.place, held.newest
    owner = owner_of(committed.note) if committed else ""
    live = speed_checkpoint(platform.settings, place.name, place.version)
    if owner in ("", "create") or owner in _checkpoints(platform, place) or _begins(live):
        return
    time.sleep(_HANDOVER_SECONDS)
    again = latest_commit(place.uri)
    if again is not None and owner_of(again.note) == owner and owner not in _checkpoints(platform, place):
        what = f"the stream of checkpoint {owner} wrote it last, and there is no such checkpoint any more"
        mending = f"anabranch up: without {live} the stream builds the table again from landing"
        mending = f"delete {live}, then {mending}" if live.exists() else mending
        yield Finding("OWNER_GONE", f"{place} ({place.uri})", what, mending, Severity.DOUBTFUL)


def _checkpoints(platform: Context, place: TableRef) -> set[str]:
    live = speed_checkpoint(platform.settings, place.name, place.version)
    replays = replay_checkpoints(platform.settings, place.name, place.version)
    found = set()
    for folder in (live, live.with_name(f"{live.name}.before"), *replays.glob("*")):
        with suppress(Exception):  # what has no id is nobody's
            found.add(checkpoint_id(folder))
    return found


def _begins(live: Path) -> bool:
    """Whether a new checkpoint is there that has not ended its first micro-batch."""
    return (live / "metadata").exists() and not any(p.name.isdecimal() for p in (live / "commits").glob("*"))


def _ordinal(day: object) -> int | None:
    if day is None:
        return None
    return (day if isinstance(day, date) else date.fromisoformat(str(day))).toordinal()


def _day(number: int) -> date:
    return date.fromordinal(number + _EPOCH_DAY)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
