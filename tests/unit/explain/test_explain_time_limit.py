"""Wherever time runs out, a search names only events over which the function was run, or says that it wasn't."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import cast

import numpy as np
import pyarrow as pa
import pytest
from anabranch.operate.explain._candidates import Candidates, LandedEvent, Row
from anabranch.operate.explain._contributions import effects
from anabranch.operate.explain._evaluator import Budget, EventSet, OutOfTime, ViewEvaluator, all_of
from anabranch.operate.explain._minimise import Search
from py4j.protocol import Py4JNetworkError
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


class Failing(ViewEvaluator):
    """One whose jobs over these sets fail."""

    error: Exception = ValueError("the author's function")
    over: frozenset[EventSet] = frozenset()

    @contextmanager
    def _cancelled_in_time(self) -> Iterator[None]:
        yield

    def _job(self, choices: Sequence[EventSet]) -> list[list[Row]]:
        if self.over & set(choices):
            raise self.error
        return [[{"flights": len(choice)}] for choice in choices]


def failing(over: EventSet, error: Exception | None = None) -> Failing:
    candidates = Candidates(pa.table({}), EVENTS, True)
    found = Failing(None, VIEW, None, candidates, None, Budget(1_000.0), all_of(90))  # type: ignore[arg-type]
    found.over, found.error = frozenset([over]), error or found.error
    return found


def test_a_function_that_fails_over_some_events_has_no_rows_there() -> None:
    some, more = all_of(3), all_of(4)
    assert failing(some).rows([some, more, all_of(90)]) == [[], [{"flights": 4}], [{"flights": 90}]]


def test_a_function_that_fails_over_all_events_is_no_row_that_is_missing() -> None:
    with pytest.raises(ValueError, match="author"):
        failing(all_of(90)).rows([all_of(3), all_of(90)])


@pytest.mark.parametrize(
    "error",
    [
        Py4JNetworkError("Answer from Java side is empty"),
        ConnectionRefusedError(111, "Connection refused"),
        RuntimeError("Cannot call methods on a stopped SparkContext."),
        RuntimeError("java.lang.OutOfMemoryError: Java heap space"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_engine_that_is_gone_is_no_error_of_the_function(error: Exception) -> None:
    with pytest.raises(type(error)):
        failing(all_of(3), error).rows([all_of(3), all_of(4)])
