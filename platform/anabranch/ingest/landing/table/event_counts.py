"""Counts landed events by day of event time, without Spark: for plans, rebuilds and certificates."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

import pyarrow as pa
from deltalake import DeltaTable

from anabranch.contracts.model.topics import Sources
from anabranch.core.settings import Settings
from anabranch.ingest.landing.table.schema import BATCH_ONLY, EVENT_DATE, IS_EVENT, LOADED, epochs_of_file
from anabranch.ingest.landing.table.sql import landed_rows, no_rows, rows_of_files
from anabranch.lake import open_table
from anabranch.lake.layout import landing_table
from anabranch.lake.log.delta_tables import data_path, folder_of


@dataclass(frozen=True, slots=True)
class EventCount:
    """Events of one day, late and loaded ones included. ``between``: those after the first of two epochs and up to the
    second; ``on_time_between``: those of them that streams read."""

    events: int = 0
    late: int = 0
    loaded: int = 0
    between: int = 0
    on_time_between: int = 0

    @property
    def batch_only(self) -> int:
        """Those that no stream reads."""
        return self.late + self.loaded

    def __add__(self, other: EventCount) -> EventCount:
        return EventCount(
            self.events + other.events,
            self.late + other.late,
            self.loaded + other.loaded,
            self.between + other.between,
            self.on_time_between + other.on_time_between,
        )


def count_events(
    table: DeltaTable,
    types: Sequence[str],
    days: Sequence[date] | None,
    epoch: int,
    between: tuple[int, int] = (0, 0),
) -> Mapping[date, EventCount]:
    """The events of ``types`` up to ``epoch`` on each of ``days`` (None: all), and those ``between`` two epochs.

    Days without events are left out. Opens only the files of ``days``: 0.3 s for a year of a million records.
    """
    if not types or (days is not None and not days):
        return {}
    with landed_rows(table, days) as rows:
        found = rows.execute(_COUNTS, {"types": list(types), "epoch": epoch, "low": between[0], "high": between[1]})
        return {day: EventCount(*numbers) for day, *numbers in found.fetchall()}


@dataclass(frozen=True, slots=True)
class EpochCounts:
    """Events of one type and day of event time in one epoch, and how many of them are late, or from files."""

    type: str
    day: date
    epoch: int
    events: int
    late: int
    loaded: int = 0

    @property
    def on_time(self) -> int:
        """Those that streams read."""
        return self.events - self.late - self.loaded


def events_since(
    table: DeltaTable, types: Sequence[str], since: Callable[[date], int | None], high: int
) -> list[EpochCounts]:
    """The events of ``types`` that landed after the epoch ``since`` their day, up to ``high``; ``since`` returns
    None for days to leave out.

    Reads Delta's log, and opens only files that may hold a later epoch than their day's.
    """
    files = [file.path for file in files_since(table, since)]
    with rows_of_files(files) if files else no_rows(table) as rows:
        found = rows.execute(_NEW_EVENTS, {"types": list(types), "high": high}).fetchall()
    news = [EpochCounts(*each) for each in found]
    return [each for each in news if (low := since(each.day)) is not None and low < each.epoch]


def landed_days(settings: Settings, topics: Sources) -> tuple[date, date] | None:
    """The first and the last day of event time of all landing files of ``topics``, from Delta's log."""
    tables = (open_table(landing_table(settings, topic.name)) for topic in topics.each)
    found = set[date]().union(*(days_of_files(table) for table in tables if table is not None))
    return (min(found), max(found)) if found else None


def days_of_files(table: DeltaTable) -> set[date]:
    """The days of event time of all files of ``table``, from Delta's log."""
    days = pa.table(table.get_add_actions(flatten=True))[f"partition.{EVENT_DATE}"].to_pylist()
    return {day for day in days if day is not None}


@dataclass(frozen=True, slots=True)
class LandedFile:
    """A data file of landing: its path, its day of event time, and the first and last epoch that it may hold rows of
    (None: its name doesn't say)."""

    path: str
    day: date
    epochs: tuple[int, int] | None


def files_since(table: DeltaTable, since: Callable[[date], int | None]) -> list[LandedFile]:
    """The files that may hold events which landed after the epoch ``since`` their day; ``since`` returns None for days
    to leave out.

    Uses the files' names, so it also works for files that were written before there were statistics.
    """
    folder, files = folder_of(table), pa.table(table.get_add_actions(flatten=True))
    low = functools.cache(since)
    found = []
    for path, day in zip(files["path"].to_pylist(), files[f"partition.{EVENT_DATE}"].to_pylist(), strict=True):
        epochs, after = epochs_of_file(path), None if day is None else low(day)
        if after is not None and (epochs is None or epochs[1] > after):
            found.append(LandedFile(str(data_path(folder, path)), day, epochs))
    return found


_NEW_EVENTS = f"""
    SELECT type, {EVENT_DATE}, epoch, count(*), count(*) FILTER (late), count_if(decision = '{LOADED}')
    FROM rows WHERE {IS_EVENT} AND type IN $types AND epoch <= $high
    GROUP BY type, {EVENT_DATE}, epoch"""  # noqa: S608 - names of our own columns
_COUNTS = f"""
    SELECT {EVENT_DATE}, count_if(epoch <= $epoch), count(*) FILTER (late AND epoch <= $epoch),
        count_if(decision = '{LOADED}' AND epoch <= $epoch), count_if(epoch > $low AND epoch <= $high),
        count_if(epoch > $low AND epoch <= $high AND coalesce(NOT {BATCH_ONLY}, true))
    FROM rows WHERE {IS_EVENT} AND type IN $types AND epoch <= greatest($epoch, $high)
    GROUP BY {EVENT_DATE}"""  # noqa: S608 - names of our own columns
