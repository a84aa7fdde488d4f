"""Which partitions an event touches is the other way round of which events a partition needs."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta

import pytest
from anabranch.views import View
from anabranch.views.selection.inputs import needed_dates
from anabranch.views.selection.partitions import touched_partitions
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


def test_no_event_touches_nothing() -> None:
    assert touched_partitions(PLAIN, []) == []
