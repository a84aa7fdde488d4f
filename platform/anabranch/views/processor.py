"""Custom state for views: a processor per key that gets its events in order, with event-time timers."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from anabranch.views.model.definition import WATERMARK, duration

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

Row = Mapping[str, Any]
Event = dict[str, Any]
"""As ``on_event`` gets it: authors write ``dict``, and a parameter that is a ``Mapping`` fits as well."""
ORDER: Final = ("event_time", "log_partition", "log_offset")
_BATCH: Final = 10_000
"""Rows per Arrow batch that a task returns to Spark."""


class Timers:
    """The timers of one key. Setting the same time twice sets one timer."""

    def __init__(self) -> None:
        self._due: list[datetime] = []
        self._latest: datetime | None = None

    def set(self, at: datetime) -> None:
        """Makes ``on_timer`` be called before the first event that is later than ``at``.

        Raises ValueError when the key is forgotten before that: the timer would never fire.
        """
        if self._latest is not None and at > self._latest:
            raise ValueError(f"a timer at {at} would never fire: forget_after drops the key at {self._latest}")
        if at not in self._due:
            heapq.heappush(self._due, at)

    def clear(self, at: datetime) -> None:
        """Removes a timer; does nothing if it isn't set."""
        if at in self._due:
            self._due.remove(at)
            heapq.heapify(self._due)

    def pop(self, until: datetime | None) -> datetime | None:
        """Removes and returns the earliest timer before ``until``; None when there is none."""
        return heapq.heappop(self._due) if self._due and until is not None and self._due[0] < until else None

    def next(self) -> datetime | None:
        """The earliest timer; None when there is none."""
        return self._due[0] if self._due else None

    def up_to(self, latest: datetime | None) -> None:
        """From now on refuses timers later than ``latest``."""
        self._latest = latest


class Processor(Protocol):
    """The interface that an author implements. Each key gets one; its attributes are the key's state (picklable)."""

    def on_event(self, event: Event, timers: Timers) -> Iterable[Row]:
        """Called once for each event of the key, in the order of event time; ties by the position in the log."""

    def on_timer(self, at: datetime, timers: Timers) -> Iterable[Row]:
        """Called once for each timer, in order, before the first later event. After the last event: only in views that
        declare ``closes``, for timers that the watermark has passed."""


ProcessorFactory = Callable[[], Processor]


def process(
    events: DataFrame,
    by: str | Sequence[str],
    processor: ProcessorFactory,
    returns: str,
    *,
    forget_after: str | None = None,
) -> DataFrame:
    """Returns the rows that a ``processor`` per key emits for its events.

    A view with ``refresh="partitions"`` runs it over the events of the days that are recomputed, from the start of the
    view's lookback. With ``refresh="state"`` and ``closes=True`` the stream uses Spark's transformWithState: in both
    paths events are buffered until the watermark has passed them, then processed in order.

    ``forget_after`` (``"2 days"``): a key without an event for that long starts with a new processor; no timer can be
    later. With Spark's state it is required, because the state of every key would be kept forever.

    Null is a valid key; a float or double isn't. ``returns`` is the schema of the rows, as in
    ``"tailnum string, n int"``; a field that a row lacks is null. An error in the processor names its event.
    """
    keys = [by] if isinstance(by, str) else list(by)
    types = dict(events.dtypes)
    wrong = [key for key in keys if types.get(key) in ("float", "double")]
    if wrong:
        raise ValueError(f"{wrong} can't be a key of process: cast it to decimal or string")
    forget = None if forget_after is None else duration(forget_after)
    if events.isStreaming:
        from anabranch.views._processor_stream import as_stream

        if forget is None:
            raise ValueError('process would keep the state of each key forever in a stream: set forget_after="2 days"')
        if WATERMARK not in events.columns:
            raise ValueError("process needs the column watermark of its events: keep it in the select")
        return as_stream(events, keys, processor, returns, forget)
    sorted_events = events.repartition(*keys).sortWithinPartitions(*keys, *ORDER)
    return sorted_events.mapInArrow(_runner(keys, processor, returns, forget), returns)


def _runner(
    keys: Sequence[str], processor: ProcessorFactory, returns: str, forget: timedelta | None
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that a task runs over its events, sorted by key and time. It streams: memory use is bounded."""
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    schema = to_arrow_schema(cast("StructType", StructType.fromDDL(returns)), timezone="UTC")

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        events = (event for batch in batches for event in batch.to_pylist())
        rows = list[dict[str, Any]]()
        for _, own in groupby(events, lambda event: [event[key] for key in keys]):
            for row in process_key(own, processor, forget):
                rows.append(dict(row))
                if len(rows) == _BATCH:
                    yield pa.RecordBatch.from_pylist(rows, schema)
                    rows = []
        yield pa.RecordBatch.from_pylist(rows, schema)

    return run


def processed(events: Iterable[Row], processor: ProcessorFactory, forget_after: str | None = None) -> Iterator[Row]:
    """``process`` for the events of one key in plain Python, for unit tests of a processor."""
    ordered = sorted(map(dict, events), key=sort_key)
    return process_key(ordered, processor, None if forget_after is None else duration(forget_after))


def sort_key(event: Row) -> tuple[Any, ...]:
    """Orders the events of one key: by event time, ties by the position in the log."""
    return tuple(event[name] for name in ORDER)


def process_key(events: Iterable[Event], processor: ProcessorFactory, forget: timedelta | None) -> Iterator[Row]:
    """The rows for the events of one key, which are in order."""
    key, watermark = KeyState(processor, forget), None
    for event in events:
        watermark = event.get(WATERMARK)
        yield from key.on_event(event)
    if watermark is not None:
        yield from key.advance_to(watermark)


class KeyState:
    """One key: its processor, its timers, and the time of its last event. ``processor`` is None when there is no state
    to keep: before the first event, and after the key was forgotten."""

    def __init__(self, make: ProcessorFactory, forget: timedelta | None) -> None:
        self.processor: Processor | None = None
        self.timers = Timers()
        self.last: datetime | None = None
        self._make = make
        self._forget = forget

    @property
    def kept_until(self) -> datetime | None:
        """The event time after which the key is forgotten; None: never."""
        return None if self._forget is None or self.last is None else self.last + self._forget

    def on_event(self, event: Event) -> Iterator[Row]:
        at = event["event_time"]
        yield from self.advance_to(at)
        if self.processor is None:
            self.processor, self.timers = self._make(), Timers()
        self.last = at
        self.timers.up_to(self.kept_until)
        try:
            yield from self.processor.on_event(event, self.timers)
        except Exception as error:
            where = f"partition {event['log_partition']}, offset {event['log_offset']}, of {at}"
            raise _failed(self.processor, "on_event", where, error) from error

    def advance_to(self, at: datetime) -> Iterator[Row]:
        """Advances the key's time to ``at``: fires the timers before that, and forgets the key when it is due."""
        while self.processor is not None and (due := self.timers.pop(at)) is not None:
            try:
                yield from self.processor.on_timer(due, self.timers)
            except Exception as error:
                raise _failed(self.processor, "on_timer", f"{due}, last event {self.last}", error) from error
        if self.kept_until is not None and self.kept_until < at:
            self.processor, self.last = None, None


def _failed(processor: Processor, method: str, where: str, error: Exception) -> RuntimeError:
    return RuntimeError(f"{type(processor).__name__}.{method} ({where}) raised {type(error).__name__}: {error}")
