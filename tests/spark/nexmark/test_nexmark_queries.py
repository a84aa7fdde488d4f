"""Every query of the benchmark in both paths, over a night with late events, against DuckDB and each other."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import polars as pl
import pytest
from anabranch.samples.rendering import render
from anabranch.settings import Settings, load_settings
from anabranch.speed.runner import catch_up
from anabranch.testing.landing import Event, Landing
from anabranch.views import View

from benchmarks.nexmark import paths
from benchmarks.nexmark.declared import declarations, topic, views
from benchmarks.nexmark.generator import Workload, nexmark_events
from benchmarks.nexmark.oracle import Oracle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

# Midnight lies in the middle of it, so auctions, sessions and windows reach over it.
NIGHT = Workload(6_000, late=0.02, begin=datetime(2015, 7, 14, 20, tzinfo=UTC))
EPOCHS = 12
VIEWS = {paths.short(view): view for view in views()}
ONE_BID_AT_A_TIME = {"q1", "q2", "q10", "q13", "q14", "q21", "q22"}
REMEMBERING = [view for query, view in VIEWS.items() if query not in ONE_BID_AT_A_TIME]


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
def house(spark: SparkSession, sent: pl.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> House:
    """Landed in two halves: the speed layer of every view that could forget has seen the first one when the second comes."""
    settings = load_settings(home=tmp_path_factory.mktemp("nexmark"), shuffle_partitions=2)
    views().register(spark, settings)
    landing = Landing(settings, topic())
    epochs = [[_event(row) for row in part.iter_rows(named=True)] for part in sent.iter_slices(NIGHT.events // EPOCHS)]
    landing.land(*epochs[: EPOCHS // 2])
    for view in REMEMBERING:
        catch_up(spark, settings, view, topic())
    landing.land(*epochs[EPOCHS // 2 :])
    records = sent.select("partition", "offset", "value").to_arrow()
    return House(settings, landing, epochs, Oracle(records, paths.epochs(settings, topic()), topic().allowed_lateness))


def _event(row: dict[str, object]) -> Event:
    data = json.loads(str(row["data"]))
    if "expires" in data:
        data["expires"] = datetime.fromisoformat(data["expires"])
    assert isinstance(row["time"], datetime)
    assert isinstance(row["partition"], int)
    return Event(str(row["event_type"]), row["time"], str(row["id"]), data, row["partition"])


def test_the_oracle_finds_the_same_events_late_as_landing(house: House) -> None:
    assert house.oracle.late == sum(bool(row["late"]) for row in house.landing.rows) > 50


@pytest.mark.parametrize("query", list(VIEWS))
def test_both_paths_are_equal_at_equal_cuts_and_to_duckdb(spark: SparkSession, house: House, query: str) -> None:
    view = VIEWS[query]
    catch_up(spark, house.settings, view, topic())
    judged = house.both_paths(spark, view)
    assert not judged.problems
    assert judged.certificates == (1 if view.kappa else len(NIGHT.days))
    assert min(judged.speed_rows, judged.batch_rows) > 0
