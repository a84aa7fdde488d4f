"""Wherever time runs out, a search names only events over which the function was run, or says that it wasn't."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import cast

import numpy as np
import pyarrow as pa
import pytest
from anabranch.operate.explain._candidates import Candidates, LandedEvent, Row
from anabranch.operate.explain._contributions import effects
from anabranch.operate.explain._evaluator import Budget, EventSet, OutOfTime, ViewEvaluator
from anabranch.operate.explain._minimise import Search
from support.landed_sample import sample_views

pytestmark = pytest.mark.unit
VIEW = sample_views().get("aircraft_now")
AT = datetime(2013, 1, 1, tzinfo=UTC)
EVENTS = [
    LandedEvent(
        "flights", 0, n, "flight.departed", AT + timedelta(minutes=n), None, 1, False, 1, f"e{n}", {"tailnum": "N1"}
    )
    for n in range(90)
]


class Counting:
    """A function that counts its events from the 30th on, and of which so many sets can be evaluated in time."""

    view = VIEW

    def __init__(self, left: int) -> None:
        self.left = left
        self.budget = Budget(1_000.0)
        self.done: dict[EventSet, list[Row]] = {}

    def rows(self, choices: Sequence[EventSet]) -> list[list[Row]]:
        for choice in choices:
            if choice not in self.done:
                if not self.left:
                    raise OutOfTime
                self.left -= 1
                count = sum(place >= 30 for place in choice)
                self.done[choice] = [{"tailnum": "N1", "flights": count}] if count else []
        return [self.done[choice] for choice in choices]

    def known(self, choice: EventSet) -> list[Row] | None:
        return self.done.get(choice)


def searched(left: int) -> tuple[Counting, Search]:
    function = Counting(left)
    candidates = Candidates(pa.table({}), EVENTS, True)
    row = {"tailnum": "N1", "flights": 60}
    return function, Search(cast("ViewEvaluator", function), candidates, np.ones(90, np.bool_), row)


@pytest.mark.parametrize("left", range(40))
def test_what_it_names_was_verified_or_is_not_called_so(left: int) -> None:
    function, search = searched(left)
    found = search.run()
    assert found.tested == (left > 0)
    assert found.verified == found.tested
    if found.verified:
        (row,) = function.done[found.events]
        assert row == search.row
        assert not found.finished or found.events == frozenset(range(30, 90))
    made = effects(cast("ViewEvaluator", function), found.events, search.row, sorted(found.events), 5)
    assert all(function.known(found.events - {place}) is not None for place in made.each)
    assert made.in_time == (len(made.each) == 5)
    if made.others is not None:
        assert frozenset(made.each) in function.done
