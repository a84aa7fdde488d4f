"""A view's function that raises: its stream ends with an error that names the event, and the others go on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from anabranch.compute.speed import _failing_event
from anabranch.compute.speed._failing_event import FailingEvent
from anabranch.compute.speed.service import Slot, Speed
from anabranch.compute.speed.view_stream import catch_up
from anabranch.core.errors import BrokenState
from anabranch.core.settings import Settings
from anabranch.views import View
from anabranch.views.model.handle import ViewHandle
from support.landed_sample import FLIGHTS, Event, Landing, sample_views

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

pytestmark = pytest.mark.spark

DELAYS = sample_views().get("departure_delays")


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a search can take longer than a stream waits for it."""
    monkeypatch.setattr(_failing_event, "SECONDS", 600.0)


def departed(at: str, origin: str = "JFK", day: int = 1) -> Event:
    time = datetime.fromisoformat(f"2013-01-{day:02} {at}").replace(tzinfo=UTC)
    data = {"origin": origin, "dest": "ATL", "carrier": "AA", "flight": 1, "dep_delay": 20, "tailnum": "N1"}
    return Event("flight.departed", time, f"{day} {at} {origin}", data)


def raising(view: View, when: Callable[[], Column]) -> View:
    """The view, whose function fails while it runs, where ``when`` holds."""
    from pyspark.sql import functions as F

    def fragile(departed: DataFrame, *others: DataFrame) -> Any:
        broken = F.when(when(), F.raise_error(F.lit("no such airport"))).otherwise(F.col("origin"))
        return view.function(departed.withColumn("origin", broken.cast("string")), *others)

    return replace(view, name=f"fragile_{view.name}", function=fragile)


def failure(spark: SparkSession, settings: Settings, view: View) -> BrokenState:
    with pytest.raises(BrokenState) as caught:
        catch_up(spark, ViewHandle(settings, view, FLIGHTS))
    assert caught.value.code == "BATCH_FAILED"
    assert "no such airport" in caught.value.what
    return caught.value


def many(skip: int, count: int, day: int = 1) -> list[Event]:
    return [departed(f"05:{n // 60 + 10}:{n % 60:02}", day=day) for n in range(skip, skip + count)]


@pytest.mark.parametrize("refresh", ["state", pytest.param("partitions", marks=pytest.mark.sweep)])
def test_one_event_among_many_is_named(spark: SparkSession, settings: Settings, refresh: str) -> None:
    from pyspark.sql import functions as F

    view = DELAYS if refresh == "state" else replace(DELAYS, refresh="partitions")
    fragile = raising(view, lambda: F.col("origin") == "XXX")
    landing = Landing(settings)
    landing.land(many(0, 20))
    catch_up(spark, ViewHandle(settings, fragile, FLIGHTS))
    landing.land([*many(20, 150), departed("05:50", "XXX"), *many(170, 100)])
    error = failure(spark, settings, fragile)
    named = error.fields["event"]
    assert isinstance(named, FailingEvent)
    assert (named.event_id, named.partition, named.offset) == ("1 05:50 XXX", 0, 170)
    assert "it fails for event '1 05:50 XXX' at flights/0@170 of 2013-01-01 alone" in error.what
    assert error.what.startswith(f"{DELAYS.origin}: fragile_departure_delays v1 failed in batch 1")


@pytest.mark.sweep
def test_a_partition_that_always_fails_is_named_by_an_event_of_it(spark: SparkSession, settings: Settings) -> None:
    from pyspark.sql import functions as F

    fragile = raising(DELAYS, lambda: F.to_date("event_time") == "2013-01-02")
    Landing(settings).land([*many(0, 20), *many(0, 20, day=2), *many(0, 20, day=3)])
    named = failure(spark, settings, fragile).fields["event"]
    assert (named.day.isoformat(), named.offset) == ("2013-01-02", 20)


def test_what_only_fails_for_events_together_names_none(spark: SparkSession, settings: Settings) -> None:
    from pyspark.sql import functions as F

    def greedy(departed: DataFrame) -> DataFrame:
        counted = DELAYS.function(departed)
        too_many = F.when(F.col("flights") > 3, F.raise_error(F.lit("no such airport"))).otherwise(F.col("flights"))
        return counted.withColumn("flights", too_many.cast("bigint"))

    Landing(settings).land(many(0, 9))
    error = failure(spark, settings, replace(DELAYS, name="greedy", function=greedy))
    assert error.fields["event"] is None


def test_a_function_that_always_raises_is_said_with_its_place_and_the_others_go_on(
    spark: SparkSession, settings: Settings
) -> None:
    def hopeless(departed: DataFrame) -> DataFrame:
        raise ZeroDivisionError("the author's")

    from anabranch.compute.speed.view_stream import start

    view = replace(DELAYS, name="hopeless", function=hopeless)
    landing = Landing(settings)
    landing.land(many(0, 3))
    streams = Speed(
        [Slot(view, FLIGHTS), Slot(DELAYS, FLIGHTS)], lambda v, t: start(spark, ViewHandle(settings, v, t)), 10**9
    )
    streams.poll()
    try:
        assert [slot.status().state for slot in streams.slots] == ["failed", "running"]
        told = streams.slots[0].status().error
        assert f"{DELAYS.origin}: hopeless v1 can't be started: ZeroDivisionError: the author's [START_FAILED]" in told
    finally:
        streams.stop()
