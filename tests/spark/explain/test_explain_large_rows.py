"""A row of hundreds of events: a bounded number of runs and jobs, a bounded time, and what was left out is said."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anabranch
import pytest
from anabranch.apps.cli._read_commands import plain
from anabranch.core.errors import TryAgain
from anabranch.core.settings import load_settings
from anabranch.operate.explain import Explanation, rendered
from anabranch.views import Registry, View
from pyspark.sql import DataFrame
from rich.console import Console
from support.explained_views import VIEWS, World, serve
from support.landed_sample import DECLARED, Event, Landing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
DELAYS, AIRCRAFT = VIEWS["departure_delays"], VIEWS["aircraft_now"]
HOUR, MANY = datetime(2013, 1, 5, 10, tzinfo=UTC), 300


def departed(number: int, hour: datetime = HOUR, origin: str = "JFK", tailnum: str = "N1") -> Event:
    data = {"origin": origin, "dest": "ATL", "carrier": "AA", "flight": number, "dep_delay": number % 60}
    data |= {"tailnum": tailnum}
    time = hour + timedelta(seconds=10 * number)
    return Event("flight.departed", time, f"{hour}{origin}{number}", data, number % 4)


@pytest.fixture(scope="module")
def crowd(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> World:
    """300 departures of one hour and aircraft in three epochs, among others."""
    settings = load_settings(home=Path(tmp_path_factory.mktemp("crowd")), shuffle_partitions=1)
    landing = Landing(settings)
    others = [departed(n, HOUR + timedelta(hours=h), "LGA", f"N{n}") for h in (-2, 0) for n in range(30, 60)]
    landing.land([departed(n) for n in range(100)] + others)
    landing.land([departed(n) for n in range(100, 200)], [departed(n) for n in range(200, MANY)])
    world = World(settings, landing)
    for view in (DELAYS, AIRCRAFT):
        serve(spark, world, view)
    return world


def explained(world: World, spark: SparkSession, view: View, key: dict[str, Any], **more: Any) -> Explanation:
    options = {"settings": world.settings, "registry": Registry((view,), DECLARED), "spark": spark, **more}
    return anabranch.explain(view.name, key, **options)


KEY = {"origin": "JFK", "window_start": HOUR}


def test_few_jobs_say_what_some_contribute_and_what_the_others_do_together(crowd: World, spark: SparkSession) -> None:
    found = explained(crowd, spark, DELAYS, KEY, seconds=120.0)

    assert (found.verified, found.tested, found.finished, len(found.parts)) == (True, True, True, MANY)
    told = [part for part in found.parts if part.effect is not None]
    assert len(told) == 20
    assert found.left_out == (f"what {MANY - 20} of {MANY} events contribute, each by itself: at most 20 are computed",)
    assert found.others is not None
    rest = [part.event.data["dep_delay"] for part in found.parts if part.effect is None]
    by = {change.column: change.by for change in found.others.changes}
    assert (by["flights"], by["delay_minutes"]) == (len(rest), sum(rest))
    assert found.runs <= 60, "a run of the function costs some 0.1 s"
    assert found.jobs <= 10, "each costs as much as some runs"

    printed = StringIO()
    for each in rendered(found, limit=5):
        Console(file=printed, width=200).print(each, markup=False)
    assert f"contribution computed for 20 of {MANY}; the other {MANY - 20} together: flights +280" in printed.getvalue()
    assert f"NOT FOUND OUT: {found.left_out[0]}" in printed.getvalue()
    content = json.loads(json.dumps(found.to_json(), default=plain))
    assert content["left_out"] == list(found.left_out)
    assert content["others"]["changes"][0]["by"] == MANY - 20


def test_as_many_contributions_as_are_asked_for(crowd: World, spark: SparkSession) -> None:
    found = explained(crowd, spark, DELAYS, KEY, seconds=120.0, contributions=25)
    assert sum(part.effect is not None for part in found.parts) == 25
    assert f"what {MANY - 25} of {MANY} events" in found.left_out[0]
    short = explained(crowd, spark, DELAYS, {"origin": "LGA", "window_start": HOUR}, contributions=100, seconds=120.0)
    assert (len(short.parts), short.left_out, short.others) == (30, (), None)


def test_a_row_of_the_newest_event_leaves_few(crowd: World, spark: SparkSession) -> None:
    found = explained(crowd, spark, AIRCRAFT, {"tailnum": "N1"}, seconds=120.0)
    assert found.verified
    assert found.jobs <= 12
    assert found.runs <= 80


def slow(view: View, seconds: float) -> View:
    """The same view, by a function that sleeps for each event."""

    def wait(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            time.sleep(seconds * len(batch))
            yield batch

    def function(departed: DataFrame) -> DataFrame:
        made: DataFrame = view.function(departed.mapInPandas(wait, departed.schema))
        return made

    return replace(view, function=function)


def test_a_slow_function_is_cancelled_and_nothing_is_claimed(crowd: World, spark: SparkSession) -> None:
    begun = time.monotonic()
    found = explained(crowd, spark, slow(DELAYS, 0.1), KEY, seconds=2.0)
    took = time.monotonic() - begun

    assert took < 10.0, "over the events of its hour it runs for 30 s"
    assert (found.verified, found.tested, found.others) == (False, False, None)
    assert len(found.parts) == MANY
    assert all(part.effect is None for part in found.parts)
    (left,) = found.left_out
    assert left.startswith("whether these events give the row: the time limit of 2 s was reached before")
    text = [each for each in rendered(found, limit=5) if isinstance(each, str)]
    assert "NOT TESTED: 300 events in its reach have its key" in text
    running = spark.sparkContext.statusTracker().getActiveJobsIds()
    assert running == [], "what was cancelled goes on"


def test_a_row_at_a_cut_that_takes_too_long_is_an_error(crowd: World, spark: SparkSession) -> None:
    with pytest.raises(TryAgain) as late:
        explained(crowd, spark, slow(DELAYS, 0.1), KEY, cut="flights@3", seconds=2.0)
    assert late.value.code == "EXPLAIN_TIMEOUT"
    assert "from 360 events within 2 s" in late.value.what
    assert "--seconds 10" in late.value.next_step
