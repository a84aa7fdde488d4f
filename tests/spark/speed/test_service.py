"""One process, many views: one that fails stops alone, says so, and is tried again."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from anabranch.compute.speed import service, status
from anabranch.compute.speed.service import RETRY_SECONDS, WAIT_SECONDS, Slot, Speed, slots_of
from anabranch.compute.speed.view_stream import SpeedQuery, start
from anabranch.contracts.model.topics import Sources
from anabranch.core.errors import BadInput, Conflict, TryAgain
from anabranch.core.settings import Settings
from anabranch.lake import latest_commit
from anabranch.lake.layout import VersionRef
from anabranch.views import View
from anabranch.views.model.handle import ViewHandle
from support.landed_sample import FLIGHTS, Event, Landing, sample_views

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

DELAYS = sample_views().get("departure_delays")


def departed(hour: int, origin: str) -> Event:
    data = {"origin": origin, "dest": "ATL", "carrier": "AA", "flight": 1, "dep_delay": 0, "tailnum": "N1"}
    return Event("flight.departed", datetime(2013, 1, 1, hour, tzinfo=UTC), f"{hour}{origin}", data)


def fragile(departed: DataFrame) -> DataFrame:
    """Fails on an event from XXX, while it runs."""
    from pyspark.sql import functions as F

    broken = F.when(F.col("origin") == "XXX", F.raise_error(F.lit("no such airport"))).otherwise(F.col("origin"))
    return DELAYS.function(departed.withColumn("origin", broken.cast("string")))


FRAGILE = replace(DELAYS, name="fragile", function=fragile)


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Platform:
    speed: Speed
    clock: Clock
    settings: Settings
    landing: Landing | None = field(default=None)

    def states(self) -> list[str]:
        return [slot.status().state for slot in self.speed.slots]

    def until(self, reached: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 120
        while not reached():
            assert time.monotonic() < deadline, [slot.status() for slot in self.speed.slots]
            time.sleep(0.1)
            self.speed.poll()

    def epoch(self, name: str) -> int:
        committed = latest_commit(VersionRef(self.settings, name, 1).speed_table)
        return committed.note.cut.epoch("flights") if committed else 0


@pytest.fixture
def platform(spark: SparkSession, settings: Settings) -> Iterator[Platform]:
    clock = Clock()

    def launch(view: View, topic: Sources) -> SpeedQuery:
        return start(spark, ViewHandle(settings, view, topic))

    speed = Speed([Slot(DELAYS, FLIGHTS), Slot(FRAGILE, FLIGHTS)], launch, 10**9, clock)
    yield Platform(speed, clock, settings)
    speed.stop()


def test_views_wait_for_landing_and_one_that_fails_stops_alone(platform: Platform) -> None:
    platform.speed.poll()
    assert platform.states() == ["waiting", "waiting"]
    assert not platform.speed.all_failed

    landing = Landing(platform.settings)
    landing.land([departed(5, "JFK")])
    platform.speed.poll()
    assert platform.states() == ["waiting", "waiting"]
    platform.clock.now = WAIT_SECONDS
    platform.until(lambda: platform.epoch("departure_delays") == platform.epoch("fragile") == 1)
    assert platform.states() == ["running", "running"]

    landing.land([departed(6, "XXX")])
    platform.until(lambda: platform.states() == ["running", "failed"] and platform.epoch("departure_delays") == 2)
    told = platform.speed.slots[1].status()
    assert "fragile v1 failed in batch 1: " in told.error
    assert "no such airport" in told.error
    assert platform.epoch("fragile") == 1
    assert not platform.speed.all_failed

    platform.clock.now += RETRY_SECONDS - 1
    platform.speed.poll()
    assert platform.states() == ["running", "failed"]
    platform.clock.now += 1
    platform.speed.poll()
    assert platform.states() == ["running", "running"]
    platform.until(lambda: platform.states() == ["running", "failed"])  # the same batch again


def test_a_view_whose_state_grows_too_large_stops_and_says_so(platform: Platform) -> None:
    Landing(platform.settings).land([departed(5, "JFK")])
    platform.until(lambda: all(told.state_bytes for told in platform.speed.statuses()))
    assert platform.states() == ["running", "running"]
    platform.speed.state_limit = 10_000
    platform.speed.statuses()

    assert platform.states() == ["failed", "failed"]
    told = platform.speed.slots[0].status().error
    assert re.search(r"departure_delays v1 keeps \d+ MB of state; the limit is 0 MB \[STATE_TOO_LARGE\]", told)
    assert "ANABRANCH_STATE_LIMIT_MB" in told
    assert platform.epoch("departure_delays") == 1


def test_its_progress_is_one_whole_file(platform: Platform) -> None:
    Landing(platform.settings).land([departed(5, "JFK")])
    platform.until(lambda: bool(platform.epoch("departure_delays") and platform.epoch("fragile")))
    platform.until(lambda: platform.speed.slots[0].status().batch is not None)
    status.write(platform.settings, [slot.status() for slot in platform.speed.slots])
    first = json.loads(status.progress_file(platform.settings).read_text())["views"][0]
    told = {key: first[key] for key in ("view", "version", "state", "cut", "rows", "state_rows", "error")}
    assert told == {
        "view": "departure_delays",
        "version": 1,
        "state": "running",
        "cut": "flights@1",
        "rows": 1,
        "state_rows": 1,
        "error": "",
    }
    assert abs(first["committed_at_ms"] / 1000 - time.time()) < 120


def test_a_restarted_stream_keeps_what_is_known_of_its_state(
    spark: SparkSession, settings: Settings, platform: Platform
) -> None:
    """Spark reports a state only with a micro-batch that it runs, and there is none until new data comes."""
    Landing(platform.settings).land([departed(5, "JFK")])
    platform.until(lambda: all(told.state_rows for told in platform.speed.statuses()))
    status.write(settings, platform.speed.statuses())
    before = status.read(settings)
    platform.speed.stop()

    def launch(view: View, topic: Sources) -> SpeedQuery:
        return start(spark, ViewHandle(settings, view, topic))

    again = Speed(
        [Slot(DELAYS, FLIGHTS), Slot(FRAGILE, FLIGHTS)], launch, 10**9, known=service._last_statuses(settings)
    )
    try:
        again.poll()
        for _ in range(2):
            told = again.statuses()
            assert [each.state for each in told] == ["running", "running"]
            assert [(each.state_rows, each.state_bytes) for each in told] == [
                (each.state_rows, each.state_bytes) for each in before
            ]
            deadline = time.monotonic() + 60  # Spark tells of an idle stream every ten seconds
            while again.slots[0].status().batch is None:
                assert time.monotonic() < deadline
                time.sleep(0.2)
        assert again.slots[0].status().state_rows == 0, "Spark says it by itself now: the known value isn't needed"
    finally:
        again.stop()
    status.progress_file(settings).write_text("{")
    assert service._last_statuses(settings) == {}


def test_all_failed_is_not_all_waiting() -> None:
    def launch(view: object, topic: object) -> SpeedQuery:
        raise errors[0]

    errors: list[Exception] = [TryAgain("LANDING_ABSENT", "not yet")]
    clock = Clock()
    speed = Speed([Slot(DELAYS, FLIGHTS)], launch, 10**9, clock)
    speed.poll()
    assert not speed.all_failed
    errors[0] = ZeroDivisionError("the author's")
    clock.now = WAIT_SECONDS
    speed.poll()
    assert speed.all_failed


def test_a_file_that_cant_be_read_is_told_beside_the_streams() -> None:
    def launch(view: object, topic: object) -> SpeedQuery:
        raise TryAgain("LANDING_ABSENT", "not yet")

    speed = Speed([Slot(DELAYS, FLIGHTS)], launch, 10**9, unread={"/views/later.py": SyntaxError("invalid syntax")})
    speed.poll()
    assert [(str(each), each.state, each.error) for each in speed.statuses()][1:] == [
        ("later.py", "unread", "SyntaxError: invalid syntax")
    ]
    assert not speed.all_failed


def test_a_stream_whose_table_was_moved_goes_on_soon() -> None:
    def launch(view: object, topic: object) -> SpeedQuery:
        tries.append(clock.now)
        raise Conflict(code, "between two micro-batches")

    for code, rest in (("TABLE_MOVED", WAIT_SECONDS), ("FINGERPRINT_OTHER", RETRY_SECONDS)):
        tries: list[float] = []
        clock = Clock()
        speed = Speed([Slot(DELAYS, FLIGHTS)], launch, 10**9, clock)
        for moment in (0.0, rest - 0.1, rest):
            clock.now = moment
            speed.poll()
        assert tries == [0.0, rest], code


def test_a_view_that_is_not_registered_is_named() -> None:
    with pytest.raises(BadInput) as error:
        slots_of(sample_views(), ["no_such_view"])
    assert error.value.code == "VIEW_UNKNOWN"
