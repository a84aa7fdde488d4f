"""What is drawn keeps its contracts, is as disordered as promised, and comes again with the same seed."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import hypothesis
import pytest
from anabranch.contracts import Contract, Event
from anabranch.contracts.sending import EventValidator
from anabranch.core.errors import BadInput
from anabranch.testing import Event as Drawn
from anabranch.testing._fake_landing import Decisions
from anabranch.testing._log_generator import draw
from anabranch.testing._scenario import Fault, Log
from anabranch.testing._source_literals import literals
from anabranch.testing._values import pool_key, values
from anabranch.views import View
from anabranch.views.function_source import read
from hypothesis import strategies as st
from support.landed_sample import FLIGHTS, sample_views

pytestmark = pytest.mark.unit
VIEW = sample_views().get("route_day")


def drawn(seed: int = 1, count: int = 60, view: View = VIEW) -> list[Log]:
    return draw(view, FLIGHTS, read(view.function), seed, count, size=(8, 36))


@pytest.fixture(scope="module")
def logs() -> list[Log]:
    return drawn()


def test_the_same_seed_draws_the_same_logs(logs: list[Log]) -> None:
    assert drawn() == logs
    assert drawn(2) != logs


def test_every_event_of_the_view_keeps_its_contract(logs: list[Log]) -> None:
    check = EventValidator(FLIGHTS.contracts)
    events = [event for log in logs for event in log.events if event.type in VIEW.events and event.data]
    assert len(events) > 1000
    for event in events:
        check.check_bytes(_as_sent(event))


def _as_sent(event: Drawn) -> bytes:
    data = {name: _text(value) for name, value in event.data.items()}
    sent = Event(event.id, event.source, event.type, "subject", event.time, data, FLIGHTS.newest(event.type).uri)
    return sent.to_json()


def _text(value: Any) -> Any:
    if isinstance(value, datetime):
        return f"{value.year:04d}{value.isoformat().replace('+00:00', 'Z')[4:]}"
    return value.isoformat() if isinstance(value, date) else value


def test_everything_that_can_befall_an_event_befalls_some(logs: list[Log]) -> None:
    rows = [row for log in logs for row in log.landed(FLIGHTS)]
    decided = Counter("late" if row["late"] else row["decision"] for row in rows)
    assert min(decided[what] for what in ("valid", "late", "duplicate", "quarantined")) > len(rows) / 100
    assert any(row.get("senttime") for row in rows)
    assert {step.then for log in logs for step in log.steps} == set(Fault)
    ties = [Counter((e.type, e.time, e.data.get("origin")) for e in log.events) for log in logs]
    assert sum(max(tie.values()) > 1 for tie in ties) > len(logs) / 2
    assert any(e.data.get("tailnum") is None for log in logs for e in log.events if "tailnum" in e.data)


def test_events_lie_on_the_borders_of_days_and_of_lateness(logs: list[Log]) -> None:
    times = [event.time for log in logs for event in log.events]
    midnight = [t for t in times if t.hour == t.minute == t.second == t.microsecond == 0]
    hair = [t for t in times if (t + timedelta(microseconds=1)).strftime("%H%M%S%f") == "0" * 12]
    assert min(len(midnight), len(hair)) > 10


def test_epochs_begin_on_the_border_of_being_late_and_a_hair_before_it(logs: list[Log]) -> None:
    behind: Counter[timedelta] = Counter()
    for log in logs:
        decisions = Decisions(FLIGHTS)
        for epoch in log.epochs:
            if decisions.bound is not None:
                behind[decisions.bound - epoch[0].time] += 1
            decisions.decide(epoch)
    assert min(behind[timedelta(0)], behind[timedelta(microseconds=1)]) >= 5


def test_some_logs_hold_no_late_event_so_that_both_paths_can_be_compared(logs: list[Log]) -> None:
    punctual = [log for log in logs if not any(row["late"] for row in log.landed(FLIGHTS))]
    assert len(logs) / 3 < len(punctual) < len(logs) * 2 / 3


@pytest.mark.parametrize("year", [2014, 2016, 2020, 2024])
def test_a_topic_that_begins_later_gets_the_same_days_of_a_later_year(year: int) -> None:
    topic = replace(FLIGHTS, earliest_year=year)
    logs = draw(VIEW, topic, read(VIEW.function), 1, 40, size=(8, 36))
    assert len(logs) == 40
    times = [event.time for log in logs for event in log.events if not event.broken]
    assert year <= min(time.year for time in times)
    days = {time.date() for time in times}
    assert any((day.month, day.day) == (2, 29) for day in days)
    assert any(day.month == 3 and 8 <= day.day <= 14 and day.weekday() == 6 for day in days)


KINDS = ("chargeback", "refund")


def named_by_code(events: Any) -> Any:
    dear = events.where((events.kind == "refund") & (events.cents >= -250) & events.city.isin(["Rome", "Paris"]))
    return dear.where("city != 'Oslo' AND rate > 0.5").where(events.kind.isin(*KINDS)).select("kind", "cents")


def test_texts_and_numbers_of_conditions_are_known() -> None:
    assert set(literals(read(named_by_code))) == {"refund", "chargeback", "Rome", "Paris", "Oslo", -250, 0.5}


def test_those_of_a_query_are_known() -> None:
    source = replace(
        read(named_by_code), sql="SELECT a1 FROM t WHERE kind = 'it''s' AND cents > -7 AND x < 1.5", used=()
    )
    assert {"it's", -7, 1.5} <= set(literals(source))
    assert not {1, 3} & set(literals(source))


@pytest.mark.parametrize(
    ("node", "found"),
    [
        ({"type": "string"}, {"refund", "Rome"}),
        ({"type": "string", "pattern": "^[a-z]+$"}, {"refund"}),
        ({"type": "string", "enum": ["a"]}, set()),
        ({"type": "string", "format": "date"}, set()),
        ({"type": "integer"}, {-251, -250, -249}),
        ({"type": "integer", "minimum": -250}, {-250, -249}),
        ({"type": "number", "minimum": 0.25}, {0.5}),
        ({"type": "array", "items": {"type": "string"}}, {"refund", "Rome"}),
        ({"type": "object", "properties": {"a": {"type": "string"}}}, {"refund", "Rome"}),
    ],
)
def test_what_the_code_names_is_drawn_where_the_contract_allows_it(node: dict[str, Any], found: set[Any]) -> None:
    named, drawn = ("refund", "Rome", -250, 0.5), set[str]()

    @hypothesis.seed(1)
    @hypothesis.settings(max_examples=150, database=None)
    @hypothesis.given(st.lists(values(node, named), min_size=3))
    def every(some: list[Any]) -> None:
        drawn.update(str(inner) for each in some for inner in _inside(each))

    every()
    assert {str(value) for value in ("refund", "Rome", -251, -250, -249, 0.5)} & drawn >= {str(each) for each in found}
    assert not ({"refund", "Rome"} - found) & drawn


def _inside(value: Any) -> Any:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else [value]


NODES: dict[str, tuple[dict[str, Any], Any]] = {
    "an integer": ({"type": "integer"}, lambda v: -(2**63) <= v < 2**63),
    "a narrow integer": ({"type": "integer", "minimum": 200, "maximum": 300}, lambda v: 200 <= v <= 300),
    "a number": ({"type": "number", "minimum": 0.5}, lambda v: v >= 0.5 and v == v),
    "a decimal": (
        {"type": "string", "format": "decimal", "precision": 5, "scale": 2},
        lambda v: abs(v) < 1000 and v.as_tuple().exponent == -2,
    ),
    "a narrow decimal": (
        {"type": "number", "format": "decimal", "precision": 38, "scale": 2, "minimum": "0.01", "maximum": 0.2},
        lambda v: Decimal("0.01") <= v <= Decimal("0.2") and v.as_tuple().exponent == -2,
    ),
    "a text": ({"type": "string"}, lambda v: v.encode() is not None),
    "a pattern": ({"type": "string", "pattern": "^[A-Z]{3}$"}, lambda v: re.fullmatch("[A-Z]{3}", v)),
    "a part of a pattern": ({"type": "string", "pattern": r"\d"}, lambda v: re.search("[0-9]", v)),
    "an enum": ({"type": "string", "enum": ["a", "b"]}, lambda v: v in "ab"),
    "a list": ({"type": "array", "items": {"type": "boolean"}}, lambda v: all(isinstance(i, bool) for i in v)),
    "an object": (
        {"type": "object", "properties": {"a": {"type": "integer", "minimum": 1}}, "required": ["a"]},
        lambda v: v["a"] >= 1,
    ),
}


@pytest.mark.parametrize("case", NODES)
def test_values_keep_their_limits(case: str) -> None:
    node, holds = NODES[case]
    Contract("a.b", 1, {"type": "object", "properties": {"x": node}})

    @hypothesis.settings(max_examples=60, database=None)
    @hypothesis.given(values(node))
    def every(value: Any) -> None:
        assert holds(value)

    every()


@pytest.mark.parametrize("around", ["items", "additionalProperties"])
def test_null_is_drawn_inside_where_the_contract_allows_it(around: str) -> None:
    def node(**inner: Any) -> Any:
        field = {"type": "array" if around == "items" else "object", around: {"type": "integer", **inner}}
        return Contract("a.b", 1, {"type": "object", "properties": {"x": field}}).fields["x"]

    firm, wide = node(), node(type=["integer", "null"])
    for each, nulls in ((firm, False), (wide, True)):
        drawn = set[Any]()

        @hypothesis.seed(1)
        @hypothesis.settings(max_examples=60, database=None)
        @hypothesis.given(values(each))
        def every(value: Any) -> None:
            drawn.update(_inside(value))  # noqa: B023

        every()
        assert (None in drawn) == nulls
        assert len(drawn) > 5
    assert pool_key("x", firm) == f"x {'array<' if around == 'items' else 'map<string, '}bigint> []"
    assert pool_key("x", wide) != pool_key("x", firm), "contracts that differ in it share no values"


def test_extremes_of_decimals_are_drawn() -> None:
    node, found = {"type": "string", "format": "decimal", "precision": 38, "scale": 2}, set[Decimal]()

    @hypothesis.seed(1)
    @hypothesis.settings(max_examples=100, database=None)
    @hypothesis.given(st.lists(values(node), min_size=3))
    def every(some: list[Decimal]) -> None:
        found.update(some)

    every()
    most = "9" * 36 + ".99"
    assert {Decimal(most), Decimal(f"-{most}"), Decimal(0), Decimal("0.01"), Decimal("0.10"), Decimal("0.20")} <= found


def test_extremes_are_drawn() -> None:
    found: set[int] = set()

    @hypothesis.seed(1)
    @hypothesis.settings(max_examples=100, database=None)
    @hypothesis.given(st.lists(values({"type": "integer"}), min_size=3))
    def every(some: list[int]) -> None:
        found.update(some)

    every()
    assert {2**63 - 1, -(2**63), 0} <= found


def test_without_hypothesis_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "hypothesis", None)
    with pytest.raises(BadInput) as caught:
        drawn()
    assert caught.value.code == "HYPOTHESIS_MISSING"
    assert "pip install" in caught.value.next_step
