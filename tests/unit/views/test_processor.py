"""A processor sees its key's events in order, and its timers between them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from anabranch.views.processor import Row, Timers, processed
from hypothesis import given
from hypothesis import strategies as st

pytestmark = pytest.mark.unit

START = datetime(2013, 1, 1, tzinfo=UTC)
GAP = timedelta(minutes=10)


def event(minute: int, offset: int, watermark: int | None = None) -> dict[str, Any]:
    passed = None if watermark is None else START + timedelta(minutes=watermark)
    time = START + timedelta(minutes=minute)
    return {"event_time": time, "log_partition": 0, "log_offset": offset, "watermark": passed}


class Sessions:
    """Events until none has followed for ten minutes."""

    def __init__(self) -> None:
        self.offsets: list[int] = []
        self.due: datetime | None = None

    def on_event(self, event: Row, timers: Timers) -> Iterator[Row]:
        self.offsets.append(event["log_offset"])
        if self.due:
            timers.clear(self.due)
        self.due = event["event_time"] + GAP
        timers.set(self.due)
        yield from ()

    def on_timer(self, at: datetime, timers: Timers) -> Iterator[Row]:
        yield {"offsets": self.offsets, "ended": at}
        self.offsets, self.due = [], None


def naive(minutes: list[int], watermark: int | None) -> list[list[int]]:
    """The same sessions by looking at neighbours."""
    order = sorted(range(len(minutes)), key=lambda n: (minutes[n], n))
    sessions: list[list[int]] = []
    for before, now in zip([None, *order], order, strict=False):
        if before is None or minutes[now] > minutes[before] + 10:
            sessions.append([])
        sessions[-1].append(now)
    return sessions[:-1] + [s for s in sessions[-1:] if watermark is not None and minutes[s[-1]] + 10 < watermark]


@given(st.lists(st.integers(0, 120), max_size=30), st.none() | st.integers(0, 150), st.randoms())
def test_timers_and_events_make_the_same_sessions_as_a_look_at_neighbours(
    minutes: list[int], watermark: int | None, chance: Any
) -> None:
    events = [event(minute, offset, watermark) for offset, minute in enumerate(minutes)]
    chance.shuffle(events)
    found = [list(row["offsets"]) for row in processed(events, Sessions)]
    assert found == naive(minutes, watermark)


def test_a_timer_is_kept_once_and_can_be_cleared() -> None:
    timers = Timers()
    for minute in (7, 5, 5, 6):
        timers.set(START + timedelta(minutes=minute))
    timers.clear(START + timedelta(minutes=6))
    timers.clear(START + timedelta(minutes=99))
    late = START + timedelta(minutes=7)
    assert [timers.pop(late), timers.pop(late), timers.pop(None)] == [START + timedelta(minutes=5), None, None]
