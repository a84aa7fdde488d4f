"""State of one's own: a processor per key that sees its events in order, with timers by event time."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol, cast

from anabranch.views.definition import WATERMARK

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

Row = Mapping[str, Any]
ORDER = ("event_time", "log_partition", "log_offset")


class Timers:
    """The timers of one key. A time is kept once, however often it is set."""

    def __init__(self) -> None:
        self._due: list[datetime] = []

    def set(self, at: datetime) -> None:
        """Call ``on_timer`` before the first event that is later than ``at``."""
        if at not in self._due:
            heapq.heappush(self._due, at)

    def clear(self, at: datetime) -> None:
        """Forget a timer; nothing happens where it isn't set."""
        if at in self._due:
            self._due.remove(at)
            heapq.heapify(self._due)

    def pop(self, until: datetime | None) -> datetime | None:
        """The earliest timer that lies before ``until``, taken out; None when there is none."""
        return heapq.heappop(self._due) if self._due and until is not None and self._due[0] < until else None


class Processor(Protocol):
    """What an author writes. One is made for each key; its attributes are the key's state."""

    def on_event(self, event: Row, timers: Timers) -> Iterable[Row]:
        """Called once for each event of the key, in the order of event time, ties by the position in the log."""

    def on_timer(self, at: datetime, timers: Timers) -> Iterable[Row]:
        """Called once for each timer, in order, before the first later event; behind the last event only for timers
        that the watermark has passed, in views that declare ``closes``."""


def process(events: DataFrame, by: str | Sequence[str], processor: Callable[[], Processor], returns: str) -> DataFrame:
    """The rows that one ``processor`` for each key makes of its events.

    For views with ``refresh="partitions"``: both paths run the same processor over the same events, from the start of
    the view's lookback. Null is a key too. ``returns`` is the schema of the rows, as in ``"tailnum string, n int"``; a
    field that a row lacks is null. A key's events are held in memory together.
    """
    keys = [by] if isinstance(by, str) else list(by)

    def run(group: pa.Table) -> pa.Table:
        import pyarrow as pa

        rows = [dict(row) for row in processed(group.to_pylist(), processor())]
        return pa.Table.from_pylist(rows, schema)

    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    schema = to_arrow_schema(cast("StructType", StructType.fromDDL(returns)), timezone="UTC")
    return events.groupBy(*keys).applyInArrow(run, returns)


def processed(events: Sequence[Row], processor: Processor) -> Iterator[Row]:
    """The same for the events of one key as plain Python: what a test of a processor calls."""
    timers = Timers()
    for event in sorted(events, key=lambda event: tuple(event[name] for name in ORDER)):
        yield from _fire(processor, timers, event["event_time"])
        yield from processor.on_event(event, timers)
    yield from _fire(processor, timers, events[0].get(WATERMARK) if events else None)


def _fire(processor: Processor, timers: Timers, until: datetime | None) -> Iterator[Row]:
    while (at := timers.pop(until)) is not None:
        yield from processor.on_timer(at, timers)
