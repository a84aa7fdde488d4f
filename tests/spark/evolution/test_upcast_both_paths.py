"""Events keep the version they were sent by, and both paths see the newest shape of them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from anabranch.compute.batch.rebuild import rebuild
from anabranch.compute.speed.service import Slot, Speed
from anabranch.compute.speed.view_stream import SpeedQuery, catch_up, start
from anabranch.contracts import Topic
from anabranch.contracts.model.topics import Sources
from anabranch.core.errors import Conflict, TryAgain
from anabranch.core.settings import Settings
from anabranch.ingest.landing.state import open_landing
from anabranch.lake.layout import VersionRef
from anabranch.views import View
from anabranch.views.model.definition import ENVELOPE
from anabranch.views.model.handle import ViewHandle
from anabranch.views.selection.inputs import events_at, frames
from support.evolved_contract import (
    DAYS,
    MIXED,
    ONE,
    TWO,
    TYPE,
    Departure,
    delays_to,
    departures_from,
    expected,
    land,
    speed_rows,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
LATE = [Departure("01 05:50", 30), Departure("01 05:55", -30, "ORD", 2)]


def batch_rows(spark: SparkSession, settings: Settings, view: View, topic: Topic) -> list[dict[str, Any]]:
    build = rebuild(spark, ViewHandle(settings, view, topic), DAYS, "run")
    folder = VersionRef(settings, view.name, 1).batch_table
    rows = [row for f in build.files for row in pq.read_table(f"{folder}/{f.path}", partitioning=None).to_pylist()]
    return sorted(rows, key=lambda row: [str(row[k]) for k in view.key])


def flat(epochs: Sequence[Sequence[Departure]]) -> list[Departure]:
    return [each for epoch in epochs for each in epoch]


def test_both_paths_and_plain_python_say_the_same(spark: SparkSession, settings: Settings) -> None:
    handle = ViewHandle(settings, delays_to, TWO)
    for epoch in MIXED:
        land(spark, settings, TWO, epoch)
        catch_up(spark, handle)
    land(spark, settings, TWO, LATE)
    catch_up(spark, handle)

    assert speed_rows(settings, delays_to) == expected(flat(MIXED))
    assert batch_rows(spark, settings, delays_to, TWO) == expected([*flat(MIXED), *LATE])


def test_a_table_from_before_goes_on_and_its_stream_keeps_its_state(spark: SparkSession, settings: Settings) -> None:
    land(spark, settings, ONE, [Departure("01 05:10", 12)], [Departure("01 05:20", 3, origin="EWR")])
    first = catch_up(spark, ViewHandle(settings, departures_from, ONE))

    land(spark, settings, ONE, [Departure("01 05:25", 1)])  # what it hasn't seen yet lies on both sides of the growth
    open_landing(settings, TWO)
    land(spark, settings, TWO, [Departure("01 05:30", 1, version=2), Departure("01 05:40", 1)])
    again = catch_up(spark, ViewHandle(settings, departures_from, TWO))
    assert again.id == first.id
    counts = {row["origin"]: row["flights"] for row in speed_rows(settings, departures_from)}
    assert counts == {"EWR": 1, "JFK": 4}

    catch_up(spark, ViewHandle(settings, delays_to, TWO))  # a stream that starts now reads files of before and after
    seen = [("01 05:10", 12), ("01 05:20", 3), ("01 05:25", 1), ("01 05:30", 1), ("01 05:40", 1)]
    assert speed_rows(settings, delays_to) == expected(Departure(at, delay) for at, delay in seen)


def test_a_stream_that_runs_while_its_table_grows_goes_on_when_started_again(
    spark: SparkSession, settings: Settings
) -> None:
    land(spark, settings, ONE, [Departure("01 05:10", 12)])
    query = start(spark, ViewHandle(settings, departures_from, ONE))
    _until(lambda: query.sink.cut.epoch("flights") == 1)
    land(spark, settings, TWO, [Departure("01 05:20", 1, version=2)])
    _until(lambda: not query.isActive)
    failure = query.failure
    assert isinstance(failure, TryAgain)
    assert failure.code == "LANDING_GREW"

    catch_up(spark, ViewHandle(settings, departures_from, TWO))
    assert [row["flights"] for row in speed_rows(settings, departures_from)] == [2]


def test_a_process_that_knows_an_older_contract_only_commits_nothing_of_the_newer_one(
    spark: SparkSession, settings: Settings
) -> None:
    handle = ViewHandle(settings, departures_from, ONE)
    land(spark, settings, ONE, [Departure("01 05:10", 12)])
    catch_up(spark, handle)
    land(spark, settings, TWO, [Departure("01 05:20", 1, version=2)])
    with pytest.raises(Conflict) as caught:
        catch_up(spark, handle)
    assert (caught.value.code, caught.value.fields["version"]) == ("CONTRACT_NEWER", 2)
    assert [row["flights"] for row in speed_rows(settings, departures_from)] == [1]
    catch_up(spark, ViewHandle(settings, departures_from, TWO))
    assert [row["flights"] for row in speed_rows(settings, departures_from)] == [2]


def test_a_speed_process_that_is_outdated_ends_and_is_started_again() -> None:
    def launch(view: View, topics: Sources) -> SpeedQuery:
        raise Conflict("CONTRACT_NEWER", "v2")

    speed = Speed([Slot(departures_from, ONE)], launch, 1)
    assert not speed.outdated
    speed.poll()
    assert speed.outdated


def test_a_view_may_start_before_landing_knows_the_newest_contract(spark: SparkSession, settings: Settings) -> None:
    land(spark, settings, ONE, [Departure("01 05:10", 12)])
    catch_up(spark, ViewHandle(settings, delays_to, TWO))
    land(spark, settings, TWO, [Departure("01 05:20", -5, version=2)])
    catch_up(spark, ViewHandle(settings, delays_to, TWO))
    wanted = expected([Departure("01 05:10", 12), Departure("01 05:20", -5)])
    assert speed_rows(settings, delays_to) == wanted
    assert batch_rows(spark, settings, delays_to, TWO) == wanted


def test_a_view_of_two_fields_reads_those_they_are_made_of(spark: SparkSession, settings: Settings) -> None:
    cut = land(spark, settings, TWO, MIXED[0])
    events = events_at(spark, ViewHandle(settings, delays_to, TWO), cut, None, late=True)
    (departed,) = frames(events, delays_to, TWO)
    read = _read_schema(departed.select("minutes_late", "origin"))
    assert "flight_departed:struct<origin:string,dep_delay:bigint,minutes_late:bigint>" in read
    alone = _read_schema(departed.select("origin"))
    assert "flight_departed:struct<origin:string>" in alone
    assert "contract_version" not in alone  # a field that all versions have is read as it is


def test_with_one_version_the_plan_is_as_it_was(spark: SparkSession, settings: Settings) -> None:
    cut = land(spark, settings, ONE, MIXED[0][:1])
    events = events_at(spark, ViewHandle(settings, departures_from, ONE), cut, None, late=True)
    (departed,) = frames(events, departures_from, ONE)
    data = [f"`flight_departed`.`{name}` AS `{name}`" for name in ONE.newest(TYPE).fields]
    columns = [c if not c.startswith("log_") else f"`{c[4:]}` AS {c}" for c in ENVELOPE]
    plain = events.where(f"type = '{TYPE}'").selectExpr(*columns, *data)
    assert departed._jdf.queryExecution().analyzed().sameResult(plain._jdf.queryExecution().analyzed())


def _read_schema(rows: DataFrame) -> str:
    leaves = rows._jdf.queryExecution().executedPlan().collectLeaves()
    return str(leaves.apply(0).requiredSchema().simpleString())


def _until(true: Any, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.1)
