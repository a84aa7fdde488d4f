"""A rebuild is the view's function over all events up to a cut, for exactly the days asked for, seen by nobody."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from anabranch.compute.batch.manifest import Build, discard, read_manifest
from anabranch.compute.batch.publish import publications, publish
from anabranch.compute.batch.rebuild import rebuild
from anabranch.core.errors import BadDefinition, BadInput, BrokenState, Conflict, TryAgain
from anabranch.core.settings import Settings
from anabranch.lake import latest_commit, open_table
from anabranch.lake.layout import VersionRef
from anabranch.views.model.handle import ViewHandle
from support.landed_sample import FLIGHTS, Event, Landing, sample_views

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

DELAYS = sample_views().get("departure_delays")
DAYS = [date(2013, 1, n) for n in (1, 2, 3)]


def departed(at: str, origin: str = "JFK", delay: int = 0) -> Event:
    time = datetime.fromisoformat(f"2013-01-{at}").replace(tzinfo=UTC)
    data = {"origin": origin, "dest": "ATL", "carrier": "AA", "flight": 1, "dep_delay": delay, "tailnum": "N1"}
    return Event("flight.departed", time, f"{at}{origin}{delay}", data)


@pytest.fixture
def landing(settings: Settings) -> Landing:
    found = Landing(settings)
    found.land([departed("01 05:10"), departed("02 05:10")], [departed("01 02:10"), departed("03 07:00")])
    assert [row["late"] for row in found.rows] == [False, False, True, False]
    return found


def built(settings: Settings, build: Build) -> list[tuple[str, int, int]]:
    """(day, hour, flights) of a staged build, from its files."""
    base = Path(VersionRef(settings, build.view, build.version).batch_table)
    found = []
    for file in build.files:
        day = str(file.partition["partition_date"])
        found += [
            (day, r["window_start"].hour, r["flights"]) for r in pq.ParquetFile(base / file.path).read().to_pylist()
        ]
    return sorted(found)


def published(settings: Settings) -> list[tuple[str, int, int]]:
    table = open_table(VersionRef(settings, DELAYS.name, 1).batch_table)
    rows = table.to_pyarrow_table().to_pylist() if table else []
    return sorted((r["partition_date"].isoformat(), r["window_start"].hour, r["flights"]) for r in rows)


def test_late_events_are_in_and_nobody_sees_it(spark: SparkSession, settings: Settings, landing: Landing) -> None:
    build = rebuild(spark, ViewHandle(settings, DELAYS, FLIGHTS), DAYS[:2], "run-1")

    assert built(settings, build) == [("2013-01-01", 2, 1), ("2013-01-01", 5, 1), ("2013-01-02", 5, 1)]
    assert (build.cut, build.rows) == (landing.cut, 3)
    assert read_manifest(VersionRef(settings, DELAYS.name, 1), "run-1") == build
    assert published(settings) == []


def test_an_older_cut_reads_older_epochs_only(spark: SparkSession, settings: Settings, landing: Landing) -> None:
    delays = ViewHandle(settings, DELAYS, FLIGHTS)
    build = rebuild(spark, delays, DAYS, "run-1", epochs={"flights": 1})
    assert built(settings, build) == [("2013-01-01", 5, 1), ("2013-01-02", 5, 1)]
    assert build.cut.epoch("flights") == 1
    with pytest.raises(BadInput) as error:
        rebuild(spark, delays, DAYS, "run-2", epochs={"flights": 3})
    assert error.value.code == "CUT_IN_FUTURE"


def test_a_second_try_of_a_run_is_the_same_build(spark: SparkSession, settings: Settings, landing: Landing) -> None:
    delays = ViewHandle(settings, DELAYS, FLIGHTS)
    first = rebuild(spark, delays, DAYS, "run-1")
    landing.land([departed("01 06:00")])
    assert rebuild(spark, delays, DAYS, "run-1") == first


def test_what_has_no_batch_half_is_refused(spark: SparkSession, settings: Settings, landing: Landing) -> None:
    with pytest.raises(BadDefinition) as error:
        rebuild(spark, ViewHandle(settings, sample_views().get("aircraft_now"), FLIGHTS), DAYS, "run-1")
    assert error.value.code == "VIEW_KAPPA"


def test_a_run_id_is_no_path(spark: SparkSession, settings: Settings, landing: Landing) -> None:
    with pytest.raises(BadInput):
        rebuild(spark, ViewHandle(settings, DELAYS, FLIGHTS), DAYS, "../../run")


def test_before_the_first_epoch_one_tries_again(spark: SparkSession, settings: Settings) -> None:
    with pytest.raises(TryAgain) as error:
        rebuild(spark, ViewHandle(settings, DELAYS, FLIGHTS), DAYS, "run-1")
    assert error.value.code == "LANDING_EMPTY"


def next_day(departed: DataFrame) -> DataFrame:
    """What departs today belongs to tomorrow."""
    from pyspark.sql import functions as F

    hourly = DELAYS.function(departed)
    return hourly.withColumn("window_start", F.col("window_start") + F.expr("interval 1 day"))


def test_lookback_is_honoured_and_held_against_the_author(
    spark: SparkSession, settings: Settings, landing: Landing
) -> None:
    honest = replace(DELAYS, name="honest", function=next_day, lookback=timedelta(days=1))
    build = rebuild(spark, ViewHandle(settings, honest, FLIGHTS), DAYS[1:2], "run-1")
    assert built(settings, build) == [("2013-01-02", 2, 1), ("2013-01-02", 5, 1)]
    left = list(Path(VersionRef(settings, "honest", 1).batch_table).rglob("*.parquet"))
    assert len(left) == len(build.files)  # the third's rows were staged beside them

    with pytest.raises(BadDefinition) as error:
        rebuild(
            spark,
            ViewHandle(settings, replace(honest, name="short", lookback=timedelta(0)), FLIGHTS),
            DAYS[1:2],
            "run-1",
        )
    assert (error.value.code, error.value.fields["partitions"]) == ("LOOKBACK_TOO_SHORT", ["2013-01-03"])
    assert not list(Path(VersionRef(settings, "short", 1).batch_table).rglob("*.parquet"))


def timeless(departed: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    return DELAYS.function(departed).withColumn("window_start", F.lit(None).cast("timestamp"))


def test_rows_without_a_day_are_refused(spark: SparkSession, settings: Settings, landing: Landing) -> None:
    with pytest.raises(BadDefinition) as error:
        rebuild(spark, ViewHandle(settings, replace(DELAYS, function=timeless), FLIGHTS), DAYS, "run-1")
    assert error.value.code == "PARTITION_NULL"


def test_publishing_replaces_exactly_these_days(spark: SparkSession, settings: Settings, landing: Landing) -> None:
    delays = ViewHandle(settings, DELAYS, FLIGHTS)
    old = rebuild(spark, delays, DAYS, "run-1", epochs={"flights": 1})
    assert publish(delays, old, DAYS) is not None
    assert published(settings) == [("2013-01-01", 5, 1), ("2013-01-02", 5, 1)]

    new = rebuild(spark, delays, DAYS, "run-2")
    publish(delays, new, [DAYS[0]])
    assert published(settings) == [("2013-01-01", 2, 1), ("2013-01-01", 5, 1), ("2013-01-02", 5, 1)]
    runs = {day: (p.run, p.cut.epoch("flights")) for day, p in publications(table_of(settings)).items()}
    assert runs == {DAYS[0]: ("run-2", 2), DAYS[1]: ("run-1", 1), DAYS[2]: ("run-1", 1)}  # the empty third too
    committed = latest_commit(table_of(settings))
    assert committed is not None
    assert (committed.note.cut, committed.note.fingerprint) == (new.cut, DELAYS.fingerprint)


def table_of(settings: Settings) -> str:
    return VersionRef(settings, DELAYS.name, 1).batch_table


def test_a_day_that_lost_its_events_becomes_empty(spark: SparkSession, settings: Settings, landing: Landing) -> None:
    publish(
        ViewHandle(settings, DELAYS, FLIGHTS),
        rebuild(spark, ViewHandle(settings, DELAYS, FLIGHTS), DAYS, "run-1"),
        DAYS,
    )
    empty = replace(rebuild(spark, ViewHandle(settings, DELAYS, FLIGHTS), DAYS, "run-2"), files=())
    publish(ViewHandle(settings, DELAYS, FLIGHTS), empty, DAYS[:1])
    assert published(settings) == [("2013-01-02", 5, 1), ("2013-01-03", 7, 1)]


def test_days_without_events_are_published_empty_even_as_the_first(
    spark: SparkSession, settings: Settings, landing: Landing
) -> None:
    empty = rebuild(spark, ViewHandle(settings, DELAYS, FLIGHTS), [date(2012, 12, 30), date(2012, 12, 31)], "run-1")
    assert publish(ViewHandle(settings, DELAYS, FLIGHTS), empty, empty.partitions) is not None
    assert (published(settings), set(publications(table_of(settings)))) == ([], set(empty.partitions))
    publish(
        ViewHandle(settings, DELAYS, FLIGHTS),
        rebuild(spark, ViewHandle(settings, DELAYS, FLIGHTS), DAYS, "run-2"),
        DAYS,
    )
    assert len(published(settings)) == 4


def test_of_two_runs_that_publish_at_once_none_is_lost(
    spark: SparkSession, settings: Settings, landing: Landing
) -> None:
    """A reprocess and a repair of one view have no lock between them, only the table's log."""
    builds = [rebuild(spark, ViewHandle(settings, DELAYS, FLIGHTS), [day], f"run-{day.day}") for day in DAYS]
    together = threading.Barrier(len(builds))

    def one(build: Build) -> int | None:
        together.wait()
        return publish(ViewHandle(settings, DELAYS, FLIGHTS), build, build.partitions)

    with ThreadPoolExecutor(len(builds)) as pool:
        versions = list(pool.map(one, builds))
    assert len(set(versions)) == len(DAYS)
    assert {day: p.run for day, p in publications(table_of(settings)).items()} == {d: f"run-{d.day}" for d in DAYS}
    assert len(published(settings)) == 4


def test_publishing_again_does_nothing(
    spark: SparkSession, settings: Settings, landing: Landing, caplog: pytest.LogCaptureFixture
) -> None:
    build = rebuild(spark, ViewHandle(settings, DELAYS, FLIGHTS), DAYS, "run-1")
    first = publish(ViewHandle(settings, DELAYS, FLIGHTS), build, DAYS[:2])
    assert publish(ViewHandle(settings, DELAYS, FLIGHTS), build, DAYS[:2]) is None
    assert "has already published all of its partitions" in caplog.text
    assert (
        publish(ViewHandle(settings, DELAYS, FLIGHTS), build, DAYS) == (first or 0) + 1
    )  # the third had been held back
    assert len(published(settings)) == 4


def test_an_older_build_does_not_replace_a_newer_one(spark: SparkSession, settings: Settings, landing: Landing) -> None:
    old = rebuild(spark, ViewHandle(settings, DELAYS, FLIGHTS), DAYS, "run-1", epochs={"flights": 1})
    publish(
        ViewHandle(settings, DELAYS, FLIGHTS),
        rebuild(spark, ViewHandle(settings, DELAYS, FLIGHTS), DAYS[:1], "run-2"),
        DAYS[:1],
    )
    with pytest.raises(Conflict) as error:
        publish(ViewHandle(settings, DELAYS, FLIGHTS), old, DAYS)
    assert (error.value.code, error.value.fields["partitions"]) == ("PUBLISHED_NEWER", ["2013-01-01"])
    assert [day for day, _, _ in published(settings)] == ["2013-01-01"] * 2


@pytest.mark.parametrize(
    ("changes", "partitions", "error"),
    [
        ({"fingerprint": "other"}, DAYS, Conflict),
        ({}, [date(2013, 1, 4)], BrokenState),
    ],
)
def test_what_does_not_fit_is_not_published(
    spark: SparkSession,
    settings: Settings,
    landing: Landing,
    changes: dict[str, Any],
    partitions: Sequence[date],
    error: type[Exception],
) -> None:
    build = replace(rebuild(spark, ViewHandle(settings, DELAYS, FLIGHTS), DAYS, "run-1"), **changes)
    with pytest.raises(error):
        publish(ViewHandle(settings, DELAYS, FLIGHTS), build, partitions)
    assert published(settings) == []


def test_a_discarded_build_leaves_nothing(spark: SparkSession, settings: Settings, landing: Landing) -> None:
    build = rebuild(spark, ViewHandle(settings, DELAYS, FLIGHTS), DAYS, "run-1")
    discard(settings, build)
    assert not list(Path(table_of(settings)).rglob("*.parquet"))
    with pytest.raises(BrokenState) as error:
        read_manifest(VersionRef(settings, DELAYS.name, 1), "run-1")
    assert error.value.code == "BUILD_MISSING"
