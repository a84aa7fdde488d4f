"""The search for the event that a function fails for: how many jobs it takes, and when it names none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date
from math import ceil, log2
from typing import Any

import pytest
from anabranch.compute.speed import _failing_event
from anabranch.compute.speed._failing_event import FailingEvent, find_failing_event
from anabranch.lake.cut import Cut
from support.landed_sample import FLIGHTS, sample_views

pytestmark = pytest.mark.unit
VIEW = sample_views().get("departure_delays")
Fails = Callable[[set[int]], object]
Search = Callable[[int, Fails], tuple[FailingEvent | None, int]]


@pytest.fixture
def search(monkeypatch: pytest.MonkeyPatch) -> Search:
    """Search among so many events with a function that fails for some sets of offsets; also says how many jobs ran."""

    def found(count: int, fails: Fails) -> tuple[FailingEvent | None, int]:
        events = [FailingEvent("flights", date(2013, 1, 1), 0, offset, f"id-{offset}") for offset in range(count)]
        jobs = list[set[int]]()

        def first_error(_: Any, __: Any, ___: Any, ____: Any, select: Any, *, late: bool) -> str | None:
            assert not late
            jobs.append(select(FLIGHTS))
            return "failed" if fails(jobs[-1]) else None

        def offsets(_: Any, some: Sequence[FailingEvent]) -> set[int]:
            return {event.offset for event in some}

        monkeypatch.setattr(_failing_event, "_events", lambda *_: events)
        monkeypatch.setattr(_failing_event, "first_error", first_error)
        monkeypatch.setattr(_failing_event, "_select", offsets)
        monkeypatch.setattr(_failing_event, "small", lambda spark: spark)
        nothing: Any = None
        named = find_failing_event(nothing, {FLIGHTS.name: ""}, VIEW, FLIGHTS, Cut(), Cut())
        return named, len(jobs)

    return found


@pytest.mark.parametrize("count", range(1, 10))
def test_the_first_of_those_that_fail_is_named_with_few_jobs(search: Search, count: int) -> None:
    for first in range(count):
        named, jobs = search(count, set(range(first, count)).intersection)
        assert named is not None
        assert named.offset == first
        assert jobs <= 2 + ceil(log2(count))


def test_no_event_is_named_for_a_failure_of_several_together(search: Search) -> None:
    assert search(8, lambda some: len(some) > 1)[0] is None
    assert search(8, lambda some: len(some) > 7)[0] is None
    assert search(8, lambda some: some > {2, 7})[0] is None


def test_no_event_is_named_without_events_without_failure_or_out_of_time(
    search: Search, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert search(0, bool) == (None, 0)
    assert search(5, lambda _: False) == (None, 1)
    monkeypatch.setattr(_failing_event, "SECONDS", -1.0)
    assert search(5, bool) == (None, 1)
