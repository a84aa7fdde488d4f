"""Which partitions an event touches is the other way round of which events a partition needs."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from anabranch.views import View
from anabranch.views.selection.inputs import needed_dates
from anabranch.views.selection.partitions import passed_partitions, touched_partitions
from hypothesis import given
from hypothesis import strategies as st

pytestmark = pytest.mark.unit

DAY = date(2013, 3, 1)
PLAIN = View("v", 1, ("flight.departed",), ("day",), lambda departed: departed, "day", refresh="partitions")
hours = st.integers(0, 100).map(lambda n: timedelta(hours=n))
near = st.integers(-6, 6).map(lambda n: DAY + timedelta(days=n))


@given(lookback=hours, lookahead=hours, event=near, partition=near)
def test_a_partition_is_touched_exactly_by_the_days_that_it_needs(
    lookback: timedelta, lookahead: timedelta, event: date, partition: date
) -> None:
    view = replace(PLAIN, lookback=lookback, lookahead=lookahead)
    assert (partition in touched_partitions(view, [event])) == (event in needed_dates(view, [partition]))


def passed(before: int | None, after: int | None, **view: Any) -> list[int]:
    """The days of a month that are closed between noon of these two days."""
    noon = [None if day is None else datetime(2013, 3, day, 12, tzinfo=UTC) for day in (before, after)]
    month = [DAY + timedelta(n) for n in range(31)]
    return [day.day for day in passed_partitions(replace(PLAIN, **view), noon[0], noon[1], month)]


def test_a_watermark_closes_what_it_passes() -> None:
    assert passed(5, 7) == [5, 6, 7]
    assert passed(5, 7, lookback=timedelta(hours=1), lookahead=timedelta(days=2)) == [3, 4, 5, 6, 7, 8]
    assert passed(5, 5) == passed(5, None) == passed(None, None) == []


def test_the_first_watermark_closes_all_days_before_it() -> None:
    """Of two topics one was empty so far."""
    assert passed(None, 3) == [1, 2, 3]
    assert passed(None, 3, lookback=timedelta(hours=30), lookahead=timedelta(hours=1)) == [1, 2, 3, 4, 5]


def test_no_event_touches_nothing() -> None:
    assert touched_partitions(PLAIN, []) == []
