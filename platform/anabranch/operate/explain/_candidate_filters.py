"""Guesses from a row's own cells which events may be behind it. `_minimise` verifies each guess with the function."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, time, timedelta
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from anabranch.operate.explain._candidates import LandedEvent, Row
from anabranch.operate.explain._evaluator import EventSet
from anabranch.views import View
from anabranch.views.model.definition import ENVELOPE
from anabranch.views.selection.row_sources import day_of, declared_reach

_HOUR, _DAY = timedelta(hours=1), timedelta(days=1)
_ABSENT: Final = object()
Mask = NDArray[np.bool_]


def guesses(view: View, row: Row, events: Sequence[LandedEvent], seen: Mask) -> list[EventSet]:
    """Returns subsets of the events that the path has ``seen``, smallest first; the full set is not among them.

    Each combines a filter on fields (fields that equal the row's cells of the same name: those of the key, or all,
    with or without the envelope's columns; or a text cell that is composed of the event's values) with a filter on
    event time (from the row's own times, its partition and the view's lookback and lookahead).
    """
    fields = _by_fields(view, row, events)
    times = [mask | _table_rows(view, events) for mask in _by_times(view, row, events)]
    found = {frozenset(np.flatnonzero(seen & a & b).tolist()) for a in fields for b in times}
    return sorted((choice for choice in found if choice and len(choice) < seen.sum()), key=len)


def by_key(view: View, row: Row, events: Sequence[LandedEvent], seen: Mask) -> EventSet:
    """The first guess: fields equal the key's columns of the same name, event time is in the declared reach."""
    near = _within(events, *declared_reach(view, row)) | _table_rows(view, events)
    mask = seen & _equal(row, view.key, events) & near
    return frozenset(np.flatnonzero(mask).tolist())


def _table_rows(view: View, events: Sequence[LandedEvent]) -> Mask:
    """Rows of the tables that the view reads: they may count, whatever their event time."""
    return np.array([event.type in view.tables for event in events], np.bool_)


def sharing_key(view: View, row: Row, events: Sequence[LandedEvent], seen: Mask) -> EventSet:
    """Events whose fields equal the key's columns of the same name, at any event time."""
    names = [name for name in view.key if name not in ENVELOPE]
    return frozenset(np.flatnonzero(seen & _equal(row, names, events)).tolist())


def moments_of(row: Row) -> list[datetime]:
    """The timestamps in a row's cells, in ascending order."""
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
        composed = np.array([any(_is_composed_of(text, event.data) for text in made) for event in events], np.bool_)
        masks += [composed, composed & masks[3]]
    return masks


def _equal(row: Row, names: Sequence[str], events: Sequence[LandedEvent]) -> Mask:
    """Events whose values equal the row's cells of the same name. A field that the event lacks, or has in another
    type, is ignored."""
    return np.array([all(_cells_agree(row[name], _value(event, name)) for name in names) for event in events], np.bool_)


def _cells_agree(cell: Any, value: Any) -> bool:
    if value is _ABSENT or (cell is not None and value is not None and type(cell) is not type(value)):
        return True
    return bool(cell == value)


def _value(event: LandedEvent, name: str) -> Any:
    envelope = {"event_time": event.event_time, "event_id": event.event_id}
    envelope |= {"log_partition": event.partition, "log_offset": event.offset}
    if name in event.reshaped:
        return envelope.get(name, _ABSENT)
    return envelope.get(name, event.data.get(name, _ABSENT))


def _is_composed_of(text: str, data: Row) -> bool:
    """Whether ``text`` is a concatenation of at least two values of ``data``."""
    parts = {str(value) for value in data.values() if value not in (None, "")} - {text}
    ends = {0}
    for at in range(len(text)):
        if at in ends:
            ends |= {at + len(part) for part in parts if text.startswith(part, at)}
    return len(text) in ends


def _by_times(view: View, row: Row, events: Sequence[LandedEvent]) -> list[Mask]:
    masks = [_within(events, *declared_reach(view, row))]
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
