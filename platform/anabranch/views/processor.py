"""State of one's own: a processor per key that sees its events in order, with timers by event time."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from anabranch.views.definition import WATERMARK, duration

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

Row = Mapping[str, Any]
ORDER: Final = ("event_time", "log_partition", "log_offset")
_BATCH: Final = 10_000
"""Rows that a task hands over to Spark at a time."""


class Timers:
    """The timers of one key. A time is kept once, however often it is set."""

    def __init__(self) -> None:
        self._due: list[datetime] = []
        self._latest: datetime | None = None

    def set(self, at: datetime) -> None:
        """Call ``on_timer`` before the first event that is later than ``at``.

        ValueError where the key is forgotten before that: it would never be called.
        """
        if self._latest is not None and at > self._latest:
            raise ValueError(f"a timer at {at}, but by then the key is forgotten: its forget_after ends {self._latest}")
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

    def next(self) -> datetime | None:
        """The earliest timer; None when there is none."""
        return self._due[0] if self._due else None

    def up_to(self, latest: datetime | None) -> None:
        """Refuse to set timers behind ``latest``."""
        self._latest = latest


class Processor(Protocol):
    """What an author writes. One is made for each key; its attributes are the key's state (what ``pickle`` takes)."""

    def on_event(self, event: Row, timers: Timers) -> Iterable[Row]:
        """Called once for each event of the key, in the order of event time, ties by the position in the log."""

    def on_timer(self, at: datetime, timers: Timers) -> Iterable[Row]:
        """Called once for each timer, in order, before the first later event; behind the last event only for timers
        that the watermark has passed, in views that declare ``closes``."""


Make = Callable[[], Processor]


def process(
    events: DataFrame, by: str | Sequence[str], processor: Make, returns: str, *, forget_after: str | None = None
) -> DataFrame:
    """The rows that one ``processor`` for each key makes of its events.

    A view with ``refresh="partitions"`` runs it over the events of the days that it computes again, from the start of
    the view's lookback. With ``refresh="state"`` and ``closes=True`` the stream is Spark's transformWithState: an
    event is held back until its time has passed, then processed in order, in both paths.

    ``forget_after`` (``"2 days"``): a key that had no event for so long starts with a new processor. Its timers are due
    by then. In Spark's state it is needed, or the state of every key would be kept for ever.

    Null is a key too; a number with a fraction can't be one. ``returns`` is the schema of the rows, as in
    ``"tailnum string, n int"``; a field that a row lacks is null. What the processor raises names its event.
    """
    keys = [by] if isinstance(by, str) else list(by)
    types = dict(events.dtypes)
    wrong = [key for key in keys if types.get(key) in ("float", "double")]
    if wrong:
        raise ValueError(f"{wrong} can't be a key of process: cast it to decimal or to text")
    forget = None if forget_after is None else duration(forget_after)
    if events.isStreaming:
        from anabranch.views.processor_stream import as_stream

        if forget is None:
            raise ValueError('process keeps the state of each key for ever in a stream: write forget_after="2 days"')
        if WATERMARK not in events.columns:
            raise ValueError("process needs the column watermark of its events: keep it in the select")
        return as_stream(events, keys, processor, returns, forget)
    sorted_events = events.repartition(*keys).sortWithinPartitions(*keys, *ORDER)
    return sorted_events.mapInArrow(_runner(keys, processor, returns, forget), returns)


def _runner(
    keys: Sequence[str], processor: Make, returns: str, forget: timedelta | None
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What a task does with its events, which are sorted by key and time: one after the other, however many."""
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    schema = to_arrow_schema(cast("StructType", StructType.fromDDL(returns)), timezone="UTC")

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        events = (event for batch in batches for event in batch.to_pylist())
        rows = list[dict[str, Any]]()
        for _, own in groupby(events, lambda event: [event[key] for key in keys]):
            for row in in_order(own, processor, forget):
                rows.append(dict(row))
                if len(rows) == _BATCH:
                    yield pa.RecordBatch.from_pylist(rows, schema)
                    rows = []
        yield pa.RecordBatch.from_pylist(rows, schema)

    return run


def processed(events: Iterable[Row], processor: Make, forget_after: str | None = None) -> Iterator[Row]:
    """The same for the events of one key as plain Python: what a test of a processor calls."""
    ordered = sorted(events, key=place)
    return in_order(ordered, processor, None if forget_after is None else duration(forget_after))


def place(event: Row) -> tuple[Any, ...]:
    """Where an event comes among those of its key."""
    return tuple(event[name] for name in ORDER)


def in_order(events: Iterable[Row], processor: Make, forget: timedelta | None) -> Iterator[Row]:
    """The rows of one key's events, which are in order."""
    key, watermark = Key(processor, forget), None
    for event in events:
        watermark = event.get(WATERMARK)
        yield from key.on_event(event)
    if watermark is not None:
        yield from key.pass_to(watermark)


class Key:
    """One key: its processor, its timers, and since when it had no event. ``processor`` is None where there is nothing
    to be kept: before its first event, and when it is forgotten."""

    def __init__(self, make: Make, forget: timedelta | None) -> None:
        self.processor: Processor | None = None
        self.timers = Timers()
        self.last: datetime | None = None
        self._make = make
        self._forget = forget

    @property
    def kept_until(self) -> datetime | None:
        """None: for ever."""
        return None if self._forget is None or self.last is None else self.last + self._forget

    def on_event(self, event: Row) -> Iterator[Row]:
        at = event["event_time"]
        yield from self.pass_to(at)
        if self.processor is None:
            self.processor, self.timers = self._make(), Timers()
        self.last = at
        self.timers.up_to(self.kept_until)
        try:
            yield from self.processor.on_event(event, self.timers)
        except Exception as error:
            where = f"partition {event['log_partition']}, offset {event['log_offset']}, of {at}"
            raise _failed(self.processor, "on_event", where, error) from error

    def pass_to(self, at: datetime) -> Iterator[Row]:
        """Its time has come to ``at``: the timers before that are due, and the key may be forgotten."""
        while self.processor is not None and (due := self.timers.pop(at)) is not None:
            try:
                yield from self.processor.on_timer(due, self.timers)
            except Exception as error:
                raise _failed(self.processor, "on_timer", f"{due}, last event {self.last}", error) from error
        if self.kept_until is not None and self.kept_until < at:
            self.processor, self.last = None, None


def _failed(processor: Processor, method: str, where: str, error: Exception) -> RuntimeError:
    return RuntimeError(f"{type(processor).__name__}.{method} ({where}) raised {type(error).__name__}: {error}")
