"""Run a processor as a stream with Spark's transformWithState, which buffers events until the watermark passes them.

The state of a key is one binary value: the processor's attributes, its timers, and the buffered events. So each key
costs one read and one write per micro-batch, and a state that is too large is detected (and refused) as a whole.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, cast

from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import Row as SparkRow
from pyspark.sql.types import StructType

from anabranch.core.errors import BrokenState
from anabranch.views.model.definition import WATERMARK
from anabranch.views.processor import Event, KeyState, ProcessorFactory, Row, sort_key

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MOST_BYTES: Final = 16 * 1024 * 1024
"""The state limit of one key. It is read and written as a whole in each micro-batch that has an event of the key."""
_MILLISECOND = timedelta(milliseconds=1)
_START = datetime(1970, 1, 1, tzinfo=UTC)


def as_stream(
    events: DataFrame, keys: Sequence[str], make: ProcessorFactory, returns: str, forget: timedelta
) -> DataFrame:
    """``process`` over streamed events."""
    names = cast("StructType", StructType.fromDDL(returns)).fieldNames()
    stateful = _OrderedProcessor(make, forget, names)
    return events.drop(WATERMARK).groupBy(*keys).transformWithState(stateful, returns, "Update", "EventTime")


class _OrderedProcessor(StatefulProcessor):
    """One per task; Spark sets the current key before each call."""

    def __init__(self, make: ProcessorFactory, forget: timedelta, names: Sequence[str]) -> None:
        self._make = make
        self._forget = forget
        self._row = SparkRow(*names)
        self._names = names

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._kept = handle.getValueState("kept", "value BINARY")

    def handleInputRows(self, key: Any, rows: Iterator[SparkRow], timerValues: Any) -> Iterator[SparkRow]:  # noqa: N802, N803
        return self._advance(key, [row.asDict() for row in rows], timerValues)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[SparkRow]:  # noqa: N802, N803
        return self._advance(key, [], timerValues)

    def close(self) -> None:
        """Nothing to release: all state is in Spark's state store."""

    def _advance(self, key: Any, new: Sequence[Event], times: Any) -> Iterator[SparkRow]:
        """Processes the events that the watermark has passed, keeps the rest, and sets a timer for the next one."""
        watermark = times.getCurrentWatermarkInMs()
        state, waiting, woken = self._load()
        waiting = sorted([*waiting, *new], key=sort_key)
        rows = list[Row]()
        if watermark > 0:
            until = _START + watermark * _MILLISECOND
            closed = next((n for n, event in enumerate(waiting) if event["event_time"] >= until), len(waiting))
            for event in waiting[:closed]:
                rows.extend(state.on_event(event))
            rows.extend(state.advance_to(until))
            waiting = waiting[closed:]
        self._save(key, state, waiting, woken if woken is not None and woken >= watermark else None)
        return iter([self._row(*(row.get(name) for name in self._names)) for row in rows])

    def _load(self) -> tuple[KeyState, list[Event], int | None]:
        key, found = KeyState(self._make, self._forget), self._kept.get()
        if found is None:
            return key, [], None
        state, key.timers, key.last, waiting, woken = pickle.loads(found[0])  # noqa: S301 - from our own state store
        if key.last is not None:
            key.processor = self._make()
            _restore(key.processor, state)
        return key, waiting, woken

    def _save(self, name: Any, key: KeyState, waiting: Sequence[Event], woken: int | None) -> None:
        times = [key.timers.next(), key.kept_until] if key.processor is not None else []
        times += [waiting[0]["event_time"]] if waiting else []
        wake = min((_floor(time) for time in times if time is not None), default=None)
        if woken is not None and woken != wake:
            self._handle.deleteTimer(woken)
        if wake is not None and woken != wake:
            self._handle.registerTimer(wake)
        if wake is None:
            self._kept.clear()
            return
        state = None if key.processor is None else key.processor.__getstate__()
        value = pickle.dumps((state, key.timers, key.last, waiting, wake))
        if len(value) > MOST_BYTES:
            raise BrokenState(
                "KEY_TOO_LARGE",
                f"the state of key {name} has {len(value):,} bytes, {len(waiting):,} buffered events among them; the "
                f"limit is {MOST_BYTES:,}",
                next_step="group by more columns, keep less in the processor, or declare refresh='partitions'",
            )
        self._kept.update((value,))


def _floor(time: datetime) -> int:
    """``time`` in whole ms. A watermark is whole milliseconds: when it has passed this, it has passed ``time``."""
    return (time - _START) // _MILLISECOND


def _restore(processor: Any, state: Any) -> None:
    """Restores what ``__getstate__`` returned, in the way that ``copy`` does."""
    if hasattr(processor, "__setstate__"):
        processor.__setstate__(state)
        return
    attributes, slots = state if isinstance(state, tuple) else (state, None)
    for name, value in {**(attributes or {}), **(slots or {})}.items():
        object.__setattr__(processor, name, value)
