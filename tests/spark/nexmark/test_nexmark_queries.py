"""Queries of the benchmark in both paths, over a night with late events, against DuckDB and each other.

One of each kind in each run, all of them in ``make sweep``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa
import pytest
from anabranch.compute.batch.manifest import StagedBuild
from anabranch.compute.batch.rebuild import rebuild
from anabranch.compute.speed.view_stream import catch_up
from anabranch.core.settings import Settings, load_settings
from anabranch.lake.layout import VersionRef
from anabranch.testing import Event, Landing
from anabranch.views import View
from anabranch.views.model.definition import PARTITION_DATE
from anabranch.views.model.handle import ViewHandle
from anabranch_samples._rendering import render

from benchmarks.nexmark import paths
from benchmarks.nexmark.declared import declarations, topic, views
from benchmarks.nexmark.generator import Workload, nexmark_events
from benchmarks.nexmark.handwritten import jobs
from benchmarks.nexmark.handwritten.queries import QUERIES
from benchmarks.nexmark.oracle import Oracle
from benchmarks.nexmark.oracle_queries import AVERAGE_OF_ALL_TIME

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

# Midnight lies in the middle of it, so auctions, sessions and windows reach over it.
NIGHT = Workload(6_000, late=0.02, begin=datetime(2015, 7, 14, 20, tzinfo=UTC))
EPOCHS = 12
VIEWS = {paths.short(view): view for view in views()}
ONE_BID_AT_A_TIME = {"q1", "q2", "q10", "q13", "q14", "q21", "q22"}
SOME = {"q0", "q3", "q4", "q5", "q7", "q8", "q11", "q18"}
"""One of each kind: one bid at a time, a join for ever, windows that join, rankings, sessions, the newest of a key."""
EACH = [pytest.param(query, marks=[] if query in SOME else [pytest.mark.sweep]) for query in VIEWS]


@dataclass(frozen=True)
class House:
    """The auction house after the first epochs, and what is still to come."""

    settings: Settings
    landing: Landing
    epochs: Sequence[Sequence[Event]]
    oracle: Oracle

    def both_paths(self, spark: SparkSession, view: View) -> paths.Judged:
        paths.reprocess(spark, self.settings, view, self.landing.topic, NIGHT.days)
        return paths.judge(spark, self.settings, view, self.landing.topic, NIGHT.days, self.oracle)


@pytest.fixture(scope="module")
def sent() -> pl.DataFrame:
    """What was sent, with the places in the log that a broker would have given."""
    events = render(nexmark_events(NIGHT, declarations()))
    spread = pl.int_range(pl.len()).cast(pl.Int32) * 7 % topic().partitions
    placed = events.with_columns(spread.alias("partition"))
    return placed.with_columns(pl.int_range(pl.len()).over("partition").alias("offset"))


@pytest.fixture(scope="module")
def house(
    spark: SparkSession, sent: pl.DataFrame, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> House:
    """Landed in two halves: the speed layers that could forget have seen the first one when the second comes."""
    settings = load_settings(home=tmp_path_factory.mktemp("nexmark"), shuffle_partitions=2)
    views().register(spark, settings)
    landing = Landing(settings, topic())
    slices = sent.iter_slices(NIGHT.events // EPOCHS)
    epochs = [[_event(row) for row in part.iter_rows(named=True)] for part in slices]
    landing.land(*epochs[: EPOCHS // 2])
    for query in _asked(request) - ONE_BID_AT_A_TIME:
        catch_up(spark, ViewHandle(settings, VIEWS[query], topic()))
    landing.land(*epochs[EPOCHS // 2 :])
    records = sent.select("partition", "offset", "value").to_arrow()
    return House(settings, landing, epochs, Oracle(records, paths.epochs(settings, topic()), topic().allowed_lateness))


def _asked(request: pytest.FixtureRequest) -> set[str]:
    """The queries whose streams this run is about."""
    name = test_both_paths_are_equal_at_equal_cuts_and_to_duckdb.__name__
    items = [item for item in request.session.items if isinstance(item, pytest.Function)]
    return {str(item.callspec.params["query"]) for item in items if item.originalname == name}


def _event(row: dict[str, object]) -> Event:
    data = json.loads(str(row["data"]))
    if "expires" in data:
        data["expires"] = datetime.fromisoformat(data["expires"])
    assert isinstance(row["time"], datetime)
    assert isinstance(row["partition"], int)
    return Event(str(row["event_type"]), row["time"], str(row["id"]), data, row["partition"])


def test_the_oracle_finds_the_same_events_late_as_landing(house: House) -> None:
    assert house.oracle.late == sum(bool(row["late"]) for row in house.landing.rows) > 50


@pytest.mark.parametrize("query", EACH)
def test_both_paths_are_equal_at_equal_cuts_and_to_duckdb(spark: SparkSession, house: House, query: str) -> None:
    view = VIEWS[query]
    catch_up(spark, ViewHandle(house.settings, view, topic()))
    judged = house.both_paths(spark, view)
    assert not judged.problems
    assert judged.certificates == (1 if view.kappa else len(NIGHT.days))
    assert min(judged.speed_rows, judged.batch_rows) > 0


@pytest.mark.parametrize("query", [query for query, view in VIEWS.items() if view.lookback or view.lookahead])
def test_a_day_alone_gives_the_rows_that_it_has_among_all(spark: SparkSession, house: House, query: str) -> None:
    view, found = VIEWS[query], []
    for day in NIGHT.days:
        build = StagedBuild.of(
            house.settings, rebuild(spark, ViewHandle(house.settings, view, topic()), [day], f"alone-{day}")
        )
        if paths_of_day := build.paths([day]):
            rows = spark.read.option("basePath", build.base).parquet(*paths_of_day)
            found.append(rows.drop(PARTITION_DATE).toArrow())
    agreement = house.oracle.compare(query, pa.concat_tables(found), late=True)
    assert agreement.agreed, agreement
    assert agreement.rows


def test_the_days_of_query_4_add_up_to_the_benchmarks_one_average(spark: SparkSession, house: House) -> None:
    paths.reprocess(spark, house.settings, VIEWS["q4"], topic(), NIGHT.days)
    rows = spark.read.format("delta").load(VersionRef(house.settings, "nexmark_q4", 1).batch_table)
    summed = rows.groupBy("category").agg({"total": "sum", "auctions": "sum", "day": "count"}).collect()
    assert max(row["count(day)"] for row in summed) > 1
    expected = house.oracle.ask(AVERAGE_OF_ALL_TIME, late=True).to_pylist()
    assert {r["category"]: r["sum(total)"] // r["sum(auctions)"] for r in summed} == {
        r["category"]: r["average"] for r in expected
    }


@pytest.mark.sweep
@pytest.mark.parametrize("query", ["q0", "q7", "q11", "q18"])
def test_the_hand_written_stream_goes_on_where_it_stopped(
    spark: SparkSession, house: House, query: str, tmp_path: Path
) -> None:
    """Merged by key, computed again by day, and merged without a day: a second micro-batch as well as the first."""
    own = Landing(load_settings(home=tmp_path), topic())
    for epochs in (house.epochs[: EPOCHS // 2], house.epochs[EPOCHS // 2 :]):
        own.land(*epochs)
        jobs.start(spark, QUERIES[query], own.uri, str(tmp_path / "table"), tmp_path / "checkpoint").awaitTermination()
    rows = spark.read.format("delta").load(str(tmp_path / "table")).drop("table_day").toArrow()
    agreement = house.oracle.compare(query, rows, late=VIEWS[query].kappa)
    assert agreement.agreed, agreement
