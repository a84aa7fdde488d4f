"""The plain-Python landing decides as the real one does (``tests/spark/landing`` holds that one to the same cases)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from anabranch.testing._fake_landing import Decisions
from support.landed_sample import FLIGHTS, Event

pytestmark = pytest.mark.unit
NOON = datetime(2013, 1, 1, 12, tzinfo=UTC)
LATENESS = FLIGHTS.allowed_lateness


def departed(name: str, time: datetime = NOON, **more: Any) -> Event:
    return Event("flight.departed", time, name, {"origin": "JFK"}, **more)


def decided(*epochs: list[Event]) -> list[tuple[str, bool | None]]:
    decisions = Decisions(FLIGHTS)
    return [(row["decision"], row["late"]) for events in epochs for row in decisions.decide(events)]


def test_the_bound_of_lateness_is_on_time_and_a_hair_before_it_is_late() -> None:
    hair = timedelta(microseconds=1)
    late = decided([departed("a")], [departed("b", NOON - LATENESS), departed("c", NOON - LATENESS - hair)])
    assert late == [("valid", False), ("valid", False), ("valid", True)]


def test_an_epoch_is_held_to_the_epochs_before_it_only() -> None:
    assert decided([departed("a"), departed("b", NOON - 2 * LATENESS)]) == [("valid", False), ("valid", False)]


def test_the_same_id_again_is_a_duplicate_and_of_another_source_it_is_not() -> None:
    again = [departed("a"), departed("a"), departed("a", source="other")]
    assert [decision for decision, _ in decided(again)] == ["valid", "duplicate", "valid"]


def test_a_broken_record_is_in_quarantine_and_shadows_nothing() -> None:
    assert decided([departed("a", broken=True), departed("a")]) == [("quarantined", None), ("valid", False)]


def test_a_clock_that_is_wrong_is_corrected() -> None:
    (row,) = Decisions(FLIGHTS).decide([departed("a", clock=timedelta(days=400))])
    assert row["event_time"] == NOON
    assert row["device_time"] == NOON + timedelta(days=400)
    assert row["receivedtime"] - row["senttime"] == -timedelta(days=400)


def test_offsets_have_no_gap_and_fields_that_no_contract_knows_are_left_out() -> None:
    rows = Decisions(FLIGHTS).decide([departed("a", partition=1), departed("b"), departed("c", partition=1)])
    assert [(row["partition"], row["offset"]) for row in rows] == [(1, 0), (0, 0), (1, 1)]
    (row,) = Decisions(FLIGHTS).decide([Event("flight.departed", NOON, "a", {"origin": "JFK", "old": 1})])
    assert row["flight_departed"] == {"origin": "JFK"}
