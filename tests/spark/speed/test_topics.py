"""Views over several topics: a cut of each, whole epochs of each, and a batch half that covers all of them or none."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anabranch
import pytest
from anabranch.certify.certify_partitions import certify
from anabranch.certify.differences import differences
from anabranch.change.dirty_partitions import dirty_partitions
from anabranch.compute.batch.manifest import StagedBuild
from anabranch.compute.batch.publish import publish
from anabranch.compute.batch.rebuild import rebuild
from anabranch.compute.speed.view_stream import StreamLocation, catch_up, start
from anabranch.contracts.model.topics import Topics
from anabranch.core.errors import TryAgain
from anabranch.core.settings import Settings, load_settings
from anabranch.lake import commit_history, latest_commit, open_table
from anabranch.lake.layout import VersionRef
from anabranch.views import View, view
from anabranch.views.check import check
from anabranch.views.model.handle import ViewHandle
from anabranch.views.selection.partition_events import count_for
from pyspark.sql import functions as F
from support.landed_sample import ALL_DECLARED, FLIGHTS, Event, Landing, gallery

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

WEATHER, PLANES = (ALL_DECLARED.topic(name) for name in ("weather", "planes"))
SEATS, IN_WEATHER, FLEET = (gallery().get(name) for name in ("seats_flown", "departed_in_weather", "fleet_now"))
DAYS = [date(2013, 1, day) for day in (1, 2, 3)]


@view(name="windy", version=1, events=["flight.departed", "weather.observed"], key=["at", "offset"], partition_by="at")
def windy(departed: DataFrame, weather: DataFrame) -> DataFrame:
    """An inner join that Spark keeps in its state, with a topic on each side."""
    together = F.expr(
        "d.origin = w.origin AND w.event_time <= d.event_time AND w.event_time > d.event_time - INTERVAL 1 HOUR"
    )
    pairs = departed.alias("d").join(weather.alias("w"), together)
    return pairs.select(F.col("d.event_time").alias("at"), F.col("d.log_offset").alias("offset"), "w.wind_speed")


@view(
    name="waited", version=1, events=["flight.departed", "weather.observed"], key=["at", "offset"], partition_by="at",
    refresh="partitions", closes=True,
)  # fmt: skip
def waited(departed: DataFrame, weather: DataFrame) -> DataFrame:
    """A row appears when the time of the departure has passed in both topics."""
    closed = departed.where("event_time < watermark")
    return closed.select(F.col("event_time").alias("at"), F.col("log_offset").alias("offset"))


def flown(at: str, tailnum: str = "N1") -> Event:
    data = {"origin": "JFK", "dest": "ATL", "carrier": "AA", "flight": 1, "dep_delay": 0, "tailnum": tailnum}
    return Event("flight.departed", time_of(at), f"d{at}{tailnum}", data)


def observed(at: str, wind: float = 5.0) -> Event:
    return Event("weather.observed", time_of(at), f"w{at}", {"origin": "JFK", "temp": 40.0, "wind_speed": wind})


def registered(at: str, seats: int, tailnum: str = "N1") -> Event:
    data = {"tailnum": tailnum, "manufacturer": "BOEING", "seats": seats}
    return Event("plane.registered", time_of(at), f"p{at}{tailnum}", data)


def time_of(at: str) -> datetime:
    return datetime.fromisoformat(f"2013-01-{at}").replace(tzinfo=UTC)


class House:
    """The landing tables of all topics, and the speed half of one view."""

    def __init__(self, spark: SparkSession, settings: Settings, declared: View) -> None:
        self.spark, self.settings, self.view = spark, settings, declared
        self.landings = {topic.name: Landing(settings, topic) for topic in (FLIGHTS, WEATHER, PLANES)}
        self.topics = gallery().topic(declared)

    def land(self, *epochs: tuple[str, list[Event]]) -> None:
        for topic, events in epochs:
            self.landings[topic].land(events)

    def run(self) -> list[dict[str, Any]]:
        catch_up(self.spark, ViewHandle(self.settings, self.view, self.topics))
        return self.rows()

    def rows(self) -> list[dict[str, Any]]:
        table = open_table(self.uri)
        assert table is not None
        return sorted(table.to_pyarrow_table().to_pylist(), key=lambda row: [str(row[k]) for k in self.view.key])

    @property
    def uri(self) -> str:
        return VersionRef(self.settings, self.view.name, self.view.version).speed_table

    @property
    def cut(self) -> str:
        committed = latest_commit(self.uri)
        assert committed is not None
        return str(committed.note.cut)

    def certified(self) -> bool:
        days = [] if self.view.kappa else DAYS
        return all(c.equal for c in certify(self.spark, ViewHandle(self.settings, self.view, self.topics), days))


@pytest.fixture
def house(spark: SparkSession, settings: Settings) -> Callable[[View], House]:
    return lambda declared: House(spark, settings, declared)


def test_a_join_in_spark_s_state_covers_an_epoch_of_each_topic(
    spark: SparkSession, house: Callable[[View], House]
) -> None:
    check(windy, spark, ALL_DECLARED)
    here = house(windy)
    assert isinstance(here.topics, Topics)
    here.land(("flights", [flown("01 10:10"), flown("01 12:10")]))
    assert (here.run(), here.cut) == ([], "flights@1,weather@0")
    here.land(("weather", [observed("01 10:00")]), ("weather", [observed("01 12:00", 9.0)]))
    assert [row["wind_speed"] for row in here.run()] == [5.0, 9.0]
    assert (here.cut, here.certified()) == ("flights@1,weather@2", True)
    assert [(row["_epoch_flights"], row["_epoch_weather"]) for row in here.rows()] == [(1, 2)] * 2

    # Late on its own topic only: W of weather is 12:00, that of the flights 12:10, and each allows two hours.
    here.land(("weather", [observed("01 09:59", 1.0)]), ("flights", [flown("01 10:11")]))
    assert [row["wind_speed"] for row in here.run()] == [5.0, 5.0, 9.0]
    assert (here.cut, here.certified()) == ("flights@2,weather@3", True)


def test_a_lost_checkpoint_and_a_topic_without_a_table(house: Callable[[View], House], settings: Settings) -> None:
    here = house(IN_WEATHER)
    here.land(("weather", [observed("01 10:00")]), ("flights", [flown("01 10:10")]))
    rows = here.run()
    assert [row["temp"] for row in rows] == [40.0]
    shutil.rmtree(VersionRef(settings, IN_WEATHER.name, 1).speed_checkpoint)
    assert (here.run(), here.cut) == (rows, "flights@1,weather@1")
    shutil.rmtree(here.landings["weather"].uri)
    with pytest.raises(TryAgain, match="topic weather has no landing table yet"):
        here.run()


def test_a_row_of_a_table_touches_what_comes_after_it(house: Callable[[View], House]) -> None:
    here = house(SEATS)
    here.land(("flights", [flown(f"0{day} 10:10") for day in (1, 2, 3)]), ("planes", [registered("01 00:00", 100)]))
    assert [row["seats"] for row in here.run()] == [100, 100, 100]
    here.land(("planes", [registered("02 12:00", 150)]))
    found = here.run()
    assert [row["seats"] for row in found] == [100, 100, 150]
    assert [row["_epoch_planes"] for row in found] == [1, 2, 2], "the first day was left alone"
    assert here.certified()
    # A late one is in no speed half: batch takes it in, and every later day is made again for it.
    here.land(("planes", [registered("01 05:00", 120)]))
    assert [row["seats"] for row in here.run()] == [100, 100, 150]
    assert here.certified()
    build = rebuild(here.spark, ViewHandle(here.settings, SEATS, here.topics), DAYS, "late")
    assert str(build.cut) == "flights@1,planes@3"
    assert count_for(ViewHandle(here.settings, SEATS, here.topics), DAYS, build.cut).read == 6
    publish(ViewHandle(here.settings, SEATS, here.topics), build, DAYS)
    read = anabranch.read("seats_flown", settings=here.settings)
    assert sorted(row["seats"] for row in read.to_arrow().to_pylist()) == [120, 120, 150]


def test_a_row_is_explained_by_events_of_both_topics(house: Callable[[View], House]) -> None:
    here = house(SEATS)
    here.land(("planes", [registered("01 00:00", 100), registered("01 12:00", 90), registered("01 00:00", 7, "N2")]))
    here.land(("flights", [flown("01 10:10"), flown("02 10:10"), flown("01 13:10", "N3")]))
    here.run()
    key = {"day": "2013-01-02", "manufacturer": "BOEING"}
    found = anabranch.explain("seats_flown", key, settings=here.settings, registry=gallery(), spark=here.spark)
    assert (found.verified, found.row["seats"]) == (True, 90)
    assert [(event.topic, event.type) for event in found.events] == [
        ("planes", "plane.registered"),
        ("flights", "flight.departed"),
    ]
    assert found.events[0].data["seats"] == 90


def test_batch_serves_only_where_it_covers_every_topic(house: Callable[[View], House]) -> None:
    here = house(SEATS)
    here.land(("flights", [flown("01 10:10")]), ("planes", [registered("01 00:00", 100)]))
    here.run()
    publish(
        ViewHandle(here.settings, SEATS, here.topics),
        rebuild(here.spark, ViewHandle(here.settings, SEATS, here.topics), DAYS[:1], "one"),
        DAYS[:1],
    )
    halves: Callable[[], list[str]] = lambda: list(  # noqa: E731
        anabranch.read("seats_flown", settings=here.settings).halves.values()
    )
    assert halves() == ["batch"]
    here.land(("planes", [registered("01 09:00", 90)]))
    here.run()
    assert halves() == ["speed"]
    older = {"flights": 1, "planes": 1}
    again = rebuild(here.spark, ViewHandle(here.settings, SEATS, here.topics), DAYS[:1], "older", older)
    assert str(again.cut) == "flights@1,planes@1"
    assert [f.rows for f in again.files] == [1]


def test_a_kappa_view_of_two_tables_follows_both(house: Callable[[View], House]) -> None:
    here = house(FLEET)
    here.land(("planes", [registered("01 00:00", 100), registered("01 00:00", 50, "N2")]))
    assert [(row["tailnum"], row["seats"], row["flights"]) for row in here.run()] == [("N1", 100, 0), ("N2", 50, 0)]
    here.land(("flights", [flown("01 10:10"), flown("01 11:10")]), ("weather", [observed("01 10:00")]))
    assert [row["flights"] for row in here.run()] == [2, 0]
    here.land(("planes", [registered("01 12:00", 60, "N2")]))
    assert [row["seats"] for row in here.run()] == [100, 60]
    assert here.certified()
    assert here.cut == "flights@1,planes@2"


def test_a_wrong_row_is_named_with_the_events_of_both_topics(house: Callable[[View], House]) -> None:
    here = house(IN_WEATHER)
    here.land(("weather", [observed("01 10:00")]), ("flights", [flown("01 10:10")]))
    here.run()
    table = open_table(here.uri)
    assert table is not None
    note = next(commit_history(table)).note
    from deltalake import CommitProperties

    table.update(updates={"temp": "1.0"}, commit_properties=CommitProperties({"userMetadata": note.to_text()}))
    assert not here.certified()
    (found,) = differences(here.spark, ViewHandle(here.settings, IN_WEATHER, here.topics), DAYS[0])
    assert [(cell.column, cell.speed, cell.expected) for cell in found.cells] == [("temp", 1.0, 40.0)]
    assert {event.topic for event in found.events} == {"flights", "weather"}


def test_the_first_watermark_of_all_topics_closes_every_day_before_it(
    house: Callable[[View], House], settings: Settings
) -> None:
    here = house(waited)
    here.land(("flights", [flown("01 10:10"), flown("02 10:10"), flown("03 10:10")]))
    here.land(("weather", [replace(observed("01 00:00"), broken=True)]))
    assert here.run() == []
    handle = ViewHandle(settings, waited, here.topics)
    publish(handle, rebuild(here.spark, handle, DAYS, "early"), DAYS)
    build = StagedBuild.of(settings, rebuild(here.spark, handle, DAYS, "early"))
    here.land(("weather", [observed("03 12:00")]))
    assert [row["at"].day for row in here.run()] == [1, 2]
    assert all(each.equal for each in certify(here.spark, handle, DAYS, build)), "no day of the build is reused"
    assert [dirty.partition for dirty in dirty_partitions(handle)] == DAYS


def test_a_stream_over_a_mirror_computes_from_the_mirror(house: Callable[[View], House], tmp_path: Path) -> None:
    here = house(IN_WEATHER)
    here.land(("weather", [observed("01 10:00")]), ("flights", [flown("01 10:10")]))
    other = House(here.spark, load_settings(home=tmp_path / "other"), IN_WEATHER)
    other.land(("weather", [observed("01 10:00")]), ("flights", [flown("01 10:20"), flown("01 10:30")]))
    landing = {name: other.landings[name].uri for name in ("flights", "weather")}
    location = StreamLocation(landing, here.uri, tmp_path / "checkpoint", replay=True)
    start(
        here.spark, ViewHandle(here.settings, IN_WEATHER, here.topics), available_now=True, location=location
    ).awaitTermination()
    assert [row["departed_at"].minute for row in here.rows()] == [20, 30]
