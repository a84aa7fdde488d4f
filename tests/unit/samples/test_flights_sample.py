"""The sample: real flights with the right instants, as events in publish order."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from typing import Any

import polars as pl
import pytest
from anabranch.contracts import Event, load_declarations
from anabranch.contracts.model.declarations import Declarations
from anabranch.contracts.sending import EventValidator
from anabranch.core.errors import BadInput
from anabranch.core.project_folder import project_root
from anabranch_samples import nycflights
from anabranch_samples._rendering import render
from anabranch_samples.flights import COLUMNS, flight_events

pytestmark = pytest.mark.unit

JANUARY_1 = date(2013, 1, 1)


@pytest.fixture(scope="module")
def declared() -> Declarations:
    return load_declarations(project_root() / "spark_jobs" / "contracts")


@pytest.fixture(scope="module")
def year() -> pl.DataFrame:
    return nycflights.flights(JANUARY_1, 365)


@pytest.fixture(scope="module")
def week(declared: Declarations) -> pl.DataFrame:
    return flight_events(JANUARY_1, 7, declared)


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def test_the_year_is_complete(year: pl.DataFrame) -> None:
    assert year.height == 336_776
    assert year["cancelled"].sum() == 8_255
    assert year["scheduled_arrival"].null_count() == 0
    assert year.select("carrier", "flight", "origin", "flight_date").is_unique().all()


@pytest.mark.parametrize(
    ("carrier", "flight", "day", "scheduled_departure", "scheduled_arrival"),
    [
        # the table says EWR 5:15 to IAH 8:19 (Central); JFK 5:45 to BQN 10:22, which airports.csv lacks
        ("UA", 1545, date(2013, 1, 1), "2013-01-01 10:15", "2013-01-01 14:19"),
        ("B6", 725, date(2013, 1, 1), "2013-01-01 10:45", "2013-01-01 14:22"),
        # JFK 9:00 to HNL 15:30, on another UTC day; EWR 13:35 to HNL 18:11 with summer time at one end only
        ("HA", 51, date(2013, 1, 1), "2013-01-01 14:00", "2013-01-02 01:30"),
        ("UA", 15, date(2013, 7, 1), "2013-07-01 17:35", "2013-07-02 04:11"),
        # JFK 23:59 to BQN 4:37, and 3:40 in summer, on the day after
        ("B6", 727, date(2013, 1, 1), "2013-01-02 04:59", "2013-01-02 08:37"),
        ("B6", 839, date(2013, 7, 1), "2013-07-02 03:59", "2013-07-02 07:40"),
    ],
)
def test_wall_clocks_become_the_right_instants(
    year: pl.DataFrame,
    carrier: str,
    flight: int,
    day: date,
    scheduled_departure: str,
    scheduled_arrival: str,
) -> None:
    chosen = year.filter(carrier=carrier, flight=flight, flight_date=day)
    assert chosen["scheduled_departure"].to_list() == [utc(scheduled_departure)]
    assert chosen["scheduled_arrival"].to_list() == [utc(scheduled_arrival)]


def test_no_flight_is_shorter_than_its_time_in_the_air(year: pl.DataFrame) -> None:
    """Holds all zones and both changes of the clock against a column that had no part in the computation."""
    minutes = (pl.col("actual_arrival") - pl.col("actual_departure")).dt.total_minutes()
    on_the_ground = year.filter(pl.col("air_time").is_not_null()).select(minutes - pl.col("air_time")).to_series()
    assert on_the_ground.len() == 327_346
    assert on_the_ground.is_between(5, 240).all(ignore_nulls=False)


@pytest.mark.parametrize(
    ("local", "expected"),
    [
        ("2013-03-10 01:59", "2013-03-10 06:59"),
        ("2013-03-10 02:30", "2013-03-10 07:30"),  # nobody's clock showed this
        ("2013-03-10 03:00", "2013-03-10 07:00"),
        ("2013-11-03 01:30", "2013-11-03 05:30"),  # showed twice: the first
        ("2013-11-03 02:00", "2013-11-03 07:00"),
    ],
)
def test_the_hours_that_the_clock_skips_and_repeats(local: str, expected: str) -> None:
    frame = pl.DataFrame({"local": [datetime.fromisoformat(local)]})
    assert frame.select(nycflights._utc_from(pl.col("local"), "America/New_York")).item() == utc(expected)


def test_the_events_of_january(declared: Declarations) -> None:
    events = flight_events(JANUARY_1, 31, declared)
    assert dict(events["event_type"].value_counts().iter_rows()) == {
        "flight.scheduled": 27_004,
        "flight.departed": 26_483,
        "flight.arrived": 26_398,
        "flight.cancelled": 521,
        "weather.observed": 2_226,
    }
    assert events.columns == list(COLUMNS)
    assert events.select("source", "id").is_unique().all()


def test_events_come_in_publish_order_and_never_before_they_happened(week: pl.DataFrame) -> None:
    assert week["publish_time"].is_sorted()
    assert (week["time"] <= week["publish_time"]).all()
    assert week["receivedtime"].equals(week["publish_time"])


def test_a_flight_has_its_events_also_after_the_last_midnight(week: pl.DataFrame, year: pl.DataFrame) -> None:
    flown = year.filter(pl.col("flight_date") < JANUARY_1 + timedelta(days=7), pl.col("arr_delay").is_not_null())
    assert (flown["actual_arrival"] > utc("2013-01-08 06:00")).any()
    assert week.filter(event_type="flight.arrived").height == flown.height


def test_late_flights_are_late_events(week: pl.DataFrame) -> None:
    late = week.filter(event_type="flight.departed").filter(
        pl.col("publish_time") - pl.col("time") > timedelta(hours=2)
    )
    delays = [json.loads(data)["dep_delay"] for data in late["data"]]
    assert len(delays) > 50
    assert min(delays) == 121


def test_every_record_keeps_its_contract_and_is_written_as_the_envelope_writes_it(
    week: pl.DataFrame, declared: Declarations
) -> None:
    validator = EventValidator([c for topic in declared.topics.values() for c in topic.contracts])
    for row in render(week).iter_rows(named=True):
        validator.check_bytes(row["value"])
        assert row["value"] == _event(row).to_json()


def _event(row: dict[str, Any]) -> Event:
    return Event(
        id=row["id"],
        source=row["source"],
        type=row["event_type"],
        subject=row["key"],
        time=row["time"],
        data=json.loads(row["data"]),
        dataschema=row["dataschema"],
        senttime=row["senttime"],
        receivedtime=row["receivedtime"],
    )


@pytest.mark.parametrize(("first", "days"), [(date(2012, 12, 1), 31), (date(2014, 1, 1), 1)])
def test_a_range_without_flights_is_an_error(first: date, days: int, declared: Declarations) -> None:
    with pytest.raises(BadInput) as caught:
        flight_events(first, days, declared)
    assert caught.value.code == "NO_FLIGHTS"
