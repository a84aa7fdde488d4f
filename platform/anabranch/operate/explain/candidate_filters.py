"""Which events may be behind a row, guessed from its own cells. Each guess is held to the view's function later."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final

import numpy as np
from anabranch.operate.explain.candidates import LandedEvent, Row
from anabranch.operate.explain.evaluator import Chosen
from anabranch.views.definition import ENVELOPE, View
from numpy.typing import NDArray

_HOUR, _DAY = timedelta(hours=1), timedelta(days=1)
_NOTHING: Final = object()
Mask = NDArray[np.bool_]


def guesses(view: View, row: Row, events: Sequence[LandedEvent], seen: Mask) -> list[Chosen]:
    """Choices of the events that the path has ``seen``, smallest first; the whole of them isn't among them.

    By which fields equal cells of the same name (those of the key, all, with or without the columns of the
    envelope), of whose values a text is put together, and by which times the row's own times and the view's reach
    suggest.
    """
    fields = _by_fields(view, row, events)
    times = [mask | _told(view, events) for mask in _by_times(view, row, events)]
    found = {frozenset(np.flatnonzero(seen & a & b).tolist()) for a in fields for b in times}
    return sorted((choice for choice in found if choice and len(choice) < seen.sum()), key=len)


def by_key(view: View, row: Row, events: Sequence[LandedEvent], seen: Mask) -> Chosen:
    """The first guess: the key's columns of the same name, in the declared reach of the row's window or day."""
    near = _within(events, *declared(view, row)) | _told(view, events)
    mask = seen & _equal(row, view.key, events) & near
    return frozenset(np.flatnonzero(mask).tolist())


def _told(view: View, events: Sequence[LandedEvent]) -> Mask:
    """Rows of the view's tables: whenever they were told, they may count."""
    return np.array([event.type in view.tables for event in events], np.bool_)


def sharing_key(view: View, row: Row, events: Sequence[LandedEvent], seen: Mask) -> Chosen:
    """Those whose fields equal the key's columns of the same name, at whatever time."""
    names = [name for name in view.key if name not in ENVELOPE]
    return frozenset(np.flatnonzero(seen & _equal(row, names, events)).tolist())


def declared(view: View, row: Row) -> tuple[datetime | None, datetime | None]:
    """From when to when events can be behind ``row``: its own window, else its day; and the view's reach."""
    if view.partition_by is None:
        return None, None
    start, end = row.get("window_start"), row.get("window_end")
    if not isinstance(start, datetime) or not isinstance(end, datetime):
        day = day_of(view, row)
        if day is None:
            return None, None
        start = datetime.combine(day, time(), UTC)
        end = start + _DAY
    return start - view.lookback, end + view.lookahead


def day_of(view: View, row: Row) -> date | None:
    """The partition that a row lies in; None for a kappa view."""
    value = row[view.partition_by] if view.partition_by else None
    if isinstance(value, datetime):
        return value.astimezone(UTC).date()
    return value if isinstance(value, date) else None


def moments_of(row: Row) -> list[datetime]:
    """The times in a row's cells, in order."""
    return sorted({value.astimezone(UTC) for value in row.values() if isinstance(value, datetime)})


def _by_fields(view: View, row: Row, events: Sequence[LandedEvent]) -> list[Mask]:
    everything = np.ones(len(events), np.bool_)
    plain = [name for name in row if name not in ENVELOPE]
    masks = [
        _equal(row, view.key, events),
        _equal(row, tuple(row), events),
        _equal(row, [name for name in view.key if name not in ENVELOPE], events),
        _equal(row, plain, events),
        everything,
    ]
    texts = [value for name, value in row.items() if name in view.key and isinstance(value, str)]
    made = [text for text in texts if len(text) > 2]
    if made:
        composed = np.array([any(_composed(text, event.data) for text in made) for event in events], np.bool_)
        masks += [composed, composed & masks[3]]
    return masks


def _equal(row: Row, names: Sequence[str], events: Sequence[LandedEvent]) -> Mask:
    """Whose values equal the row's cells of the same name. A name that the event lacks, or has in another type, says
    nothing."""
    return np.array([all(_agrees(row[name], _value(event, name)) for name in names) for event in events], np.bool_)


def _agrees(cell: Any, value: Any) -> bool:
    if value is _NOTHING or (cell is not None and value is not None and type(cell) is not type(value)):
        return True
    return bool(cell == value)


def _value(event: LandedEvent, name: str) -> Any:
    envelope = {"event_time": event.event_time, "event_id": event.event_id}
    envelope |= {"log_partition": event.partition, "log_offset": event.offset}
    if name in event.reshaped:
        return envelope.get(name, _NOTHING)
    return envelope.get(name, event.data.get(name, _NOTHING))


def _composed(text: str, data: Row) -> bool:
    """Whether ``text`` is nothing but values of ``data``, two of them at least, one behind the other."""
    parts = {str(value) for value in data.values() if value not in (None, "")} - {text}
    ends = {0}
    for at in range(len(text)):
        if at in ends:
            ends |= {at + len(part) for part in parts if text.startswith(part, at)}
    return len(text) in ends


def _by_times(view: View, row: Row, events: Sequence[LandedEvent]) -> list[Mask]:
    masks = [_within(events, *declared(view, row))]
    day = day_of(view, row)
    if day is not None:
        midnight = datetime.combine(day, time(), UTC)
        masks.append(_within(events, midnight, midnight + _DAY))
    moments = moments_of(row)
    if not moments:
        return masks
    first, last, tick = moments[0], moments[-1], timedelta(microseconds=1)
    spans = [
        (first, last + tick),
        (first - view.lookback, last + tick),
        (first, last + view.lookahead),
        (first, first + _HOUR),
        (first - view.lookback, first + _HOUR),
    ]
    masks += [_within(events, *span) for span in spans]
    own = set(moments)
    masks.append(np.array([event.event_time in own for event in events], np.bool_))
    return masks


def _within(events: Sequence[LandedEvent], start: datetime | None, end: datetime | None) -> Mask:
    if start is None or end is None:
        return np.ones(len(events), np.bool_)
    return np.array([start <= event.event_time < end for event in events], np.bool_)
