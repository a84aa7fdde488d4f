"""Lists the events that no stream reads (late ones, and those from files) by day and epoch, and the days that have any
events; without Spark, opening as few files as possible."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date

from deltalake import DeltaTable

from anabranch.ingest.landing.table.event_counts import LandedFile, files_since
from anabranch.ingest.landing.table.schema import BATCH_ONLY, EVENT_DATE, IS_EVENT, LOADED
from anabranch.ingest.landing.table.sql import rows_of_files
from anabranch.lake import commit_history

_COMMITS = 20_000
"""How many of the newest commits are checked for late events in their epoch: that takes a twentieth of the time of
opening a file."""
_FIRST_LOOK = 16
"""How many files of a day are opened at first to see whether it has events."""


@dataclass(frozen=True, slots=True)
class LateEvents:
    """Events of one day of event time that no stream reads, in one epoch: late ones, and ``loaded`` ones among them."""

    day: date
    epoch: int
    events: int
    loaded: int = 0


@dataclass(frozen=True, slots=True)
class Lateness:
    """``late``: late and loaded events, by day and epoch. ``days``: those with any events, on time or not."""

    late: Sequence[LateEvents] = field(hash=False)
    days: frozenset[date]


def lateness_since(table: DeltaTable, types: Sequence[str], since: Callable[[date], int | None], high: int) -> Lateness:
    """The events of ``types`` that landed after the epoch ``since`` their day, up to ``high``; ``since`` returns
    None for days to leave out.

    Reads Delta's log and its newest commits. Opens only files with an epoch after their day's that had late or loaded
    events, or whose commit doesn't say so; and a few of the others, for days about which nothing else is known.
    """
    files = [file for file in files_since(table, since) if file.epochs is None or file.epochs[0] <= high]
    on_time = _epochs_on_time(table, files)
    asked = {"types": list(types), "high": high}
    late, days = list[LateEvents](), set[date]()
    opened = [file.path for file in files if not _is_on_time(file, on_time)]
    if opened:
        with rows_of_files(opened) as rows:
            for day, epoch, events, loaded in rows.execute(_LATE, asked).fetchall():
                if epoch is not None and epoch > (since(day) or 0):
                    late.append(LateEvents(day, epoch, events, loaded))
                days.add(day)
    others = dict[date, list[str]]()
    for file in files:
        if _is_on_time(file, on_time) and file.day not in days:
            others.setdefault(file.day, []).append(file.path)
    return Lateness(late, frozenset(days | _days_with_events(others, asked)))


def _epochs_on_time(table: DeltaTable, files: Sequence[LandedFile]) -> set[int]:
    """The epochs of ``files`` whose commit metadata says that streams read all of their events."""
    single = [file.epochs[0] for file in files if file.epochs is not None and file.epochs[0] == file.epochs[1]]
    if not single:
        return set()
    oldest = min(single)
    found = set[int]()
    for committed in commit_history(table, _COMMITS):
        epoch = sum(at.epoch for at in committed.note.cut.positions.values())  # a landing table has one topic
        if epoch < oldest:
            break
        counts = committed.note.extra.get("counts")
        if isinstance(counts, dict) and counts.get("late") == 0 and not counts.get(LOADED):
            found.add(epoch)
    return found


def _is_on_time(file: LandedFile, on_time: set[int]) -> bool:
    return file.epochs is not None and file.epochs[0] == file.epochs[1] and file.epochs[0] in on_time


def _days_with_events(files: dict[date, list[str]], asked: dict[str, object]) -> set[date]:
    """Opens few files at first: nearly every file of landing holds events of all types."""
    found, left, count = set[date](), dict(files), _FIRST_LOOK
    while left:
        with rows_of_files([path for paths in left.values() for path in paths[:count]]) as rows:
            found |= {day for (day,) in rows.execute(_DAYS, asked).fetchall()}
        left = {day: paths[count:] for day, paths in left.items() if day not in found and len(paths) > count}
        count *= 4
    return found


_OURS = f"{IS_EVENT} AND type IN $types AND epoch <= $high"
_LATE = f"""
    SELECT {EVENT_DATE}, CASE WHEN {BATCH_ONLY} THEN epoch END, count(*), count_if(decision = '{LOADED}')
    FROM rows WHERE {_OURS} GROUP BY ALL"""  # noqa: S608 - names of our own columns
_DAYS = f"SELECT DISTINCT {EVENT_DATE} FROM rows WHERE {_OURS}"  # noqa: S608 - the same
