"""How many events landed, by day of event time: for plans, rebuilds and certificates, without Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from deltalake import DeltaTable

from anabranch.landing.rows import landed_rows
from anabranch.landing.schema import PARTITION, VALID


@dataclass(frozen=True, slots=True)
class EventCount:
    """Valid events of one day. ``between``: those that lie after the first of two epochs and not after the second."""

    events: int = 0
    late: int = 0
    between: int = 0

    def __add__(self, other: EventCount) -> EventCount:
        return EventCount(self.events + other.events, self.late + other.late, self.between + other.between)


def count_events(
    table: DeltaTable,
    types: Sequence[str],
    days: Sequence[date] | None,
    epoch: int,
    between: tuple[int, int] = (0, 0),
) -> Mapping[date, EventCount]:
    """The valid events of ``types`` up to ``epoch`` on each of ``days`` (None: all), and those ``between`` two epochs.

    Days without any are left out. Only the files of ``days`` are opened: 0.3 s for a year of a million records.
    """
    if not types or (days is not None and not days):
        return {}
    with landed_rows(table, days) as rows:
        found = rows.execute(_COUNTS, {"types": list(types), "epoch": epoch, "low": between[0], "high": between[1]})
        return {day: EventCount(*numbers) for day, *numbers in found.fetchall()}


@dataclass(frozen=True, slots=True)
class News:
    """Valid events of one type and day of event time that one epoch has landed, and how many of them were late."""

    type: str
    day: date
    epoch: int
    events: int
    late: int


def events_since(table: DeltaTable, types: Sequence[str], low: int, high: int) -> list[News]:
    """The valid events of ``types`` that landed after the epoch ``low`` and not after ``high``.

    Files of older epochs are not opened.
    """
    if not types or high <= low:
        return []
    with landed_rows(table, after=low) as rows:
        found = rows.execute(_NEWS, {"types": list(types), "low": low, "high": high})
        return [News(*each) for each in found.fetchall()]


_NEWS = f"""
    SELECT type, {PARTITION}, epoch, count(*), count_if(late)
    FROM rows WHERE decision = '{VALID}' AND type IN $types AND epoch > $low AND epoch <= $high
    GROUP BY type, {PARTITION}, epoch"""  # noqa: S608 - names of our own columns
_COUNTS = f"""
    SELECT {PARTITION}, count_if(epoch <= $epoch), count_if(late AND epoch <= $epoch),
        count_if(epoch > $low AND epoch <= $high)
    FROM rows WHERE decision = '{VALID}' AND type IN $types AND epoch <= greatest($epoch, $high)
    GROUP BY {PARTITION}"""  # noqa: S608 - names of our own columns
