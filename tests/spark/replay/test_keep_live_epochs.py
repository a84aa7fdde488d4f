"""A partition in which a replay finds nothing wrong keeps the live table's files; the others are written again."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from anabranch.change.replay import _keep_live_epochs
from anabranch.change.replay.rate_limit import Pace
from anabranch.change.replay.request import ReplayRequest
from anabranch.change.replay.runner import replay
from anabranch.change.replay.state import PUBLISHED
from anabranch.compute.speed.view_stream import catch_up
from anabranch.core.settings import Settings
from anabranch.lake import latest_commit, open_table
from anabranch.lake.commits import append, upsert
from anabranch.lake.cut import Cut, Position
from anabranch.lake.files import stage_arrow
from anabranch.lake.layout import VersionRef
from anabranch.views.model.definition import CHANGED, PARTITION_DATE
from anabranch.views.model.handle import ViewHandle
from deltalake import DeltaTable
from support.landed_sample import FLIGHTS, Event, Landing, sample_views

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
DELAYS = sample_views().get("departure_delays")
FIRST, SECOND = date(2013, 1, 1), date(2013, 1, 2)
Row = dict[str, Any]


@pytest.fixture
def uri(spark: SparkSession, settings: Settings) -> str:
    """A speed table of two days."""
    Landing(settings).land([departed(1, 5), departed(1, 6)], [departed(2, 7), departed(2, 8)])
    catch_up(spark, ViewHandle(settings, DELAYS, FLIGHTS))
    return VersionRef(settings, DELAYS.name, DELAYS.version).speed_table


def departed(day: int, hour: int) -> Event:
    data = {"origin": "JFK", "dest": "ATL", "carrier": "AA", "flight": 1, "dep_delay": hour, "tailnum": "N1"}
    return Event("flight.departed", datetime(2013, 1, day, hour, tzinfo=UTC), f"{day}-{hour}", data)


def newest(uri: str) -> DeltaTable:
    table = open_table(uri)
    assert table is not None
    return table


def rows_of(uri: str) -> list[Row]:
    return sorted(newest(uri).to_pyarrow_table().to_pylist(), key=lambda row: str(row["window_start"]))


def files_of(uri: str) -> dict[date, set[int]]:
    """The files of each day, as the disk knows them, whatever their names."""
    found = dict[date, set[int]]()
    for file in pa.table(newest(uri).get_add_actions(flatten=True)).to_pylist():
        found.setdefault(file[f"partition.{PARTITION_DATE}"], set()).add((Path(uri) / file["path"]).stat().st_ino)
    return found


def rows_as_table(uri: str, rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist(rows, pa.schema(newest(uri).schema().to_arrow()))


def replayed(spark: SparkSession, settings: Settings, run: str = "again", days: tuple[date, ...] | None = None) -> int:
    ended = replay(spark, ReplayRequest(ViewHandle(settings, DELAYS, FLIGHTS), run, pace=Pace(1.0), days=days))
    assert ended.phase == PUBLISHED, ended.said
    return ended.mended


@pytest.mark.parametrize("days", [None, (FIRST, SECOND)])
def test_only_the_day_that_is_wrong_is_written(
    spark: SparkSession, settings: Settings, uri: str, days: tuple[date, ...] | None
) -> None:
    right, commit = rows_of(uri), latest_commit(uri)
    assert commit is not None
    wrong = {**right[-1], "flights": 7}
    upsert(newest(uri), rows_as_table(uri, [wrong]), DELAYS.key, commit.note, PARTITION_DATE)
    before = files_of(uri)

    assert replayed(spark, settings, days=days) == 1
    rows, files = rows_of(uri), files_of(uri)
    assert rows[:-1] == right[:-1]
    assert {**rows[-1], CHANGED: 0} == {**right[-1], CHANGED: 0}
    assert files[FIRST] == before[FIRST]
    assert not files[SECOND] & before[SECOND]


def test_a_day_that_holds_a_row_twice_is_written_again(spark: SparkSession, settings: Settings, uri: str) -> None:
    """Each of its rows equals one of the replay's."""
    right, commit = rows_of(uri), latest_commit(uri)
    assert commit is not None
    append(newest(uri), stage_arrow(rows_as_table(uri, right[-1:]), uri, "twice", PARTITION_DATE), commit.note)
    assert rows_of(uri) == [*right, right[-1]]
    replayed(spark, settings)
    assert rows_of(uri) == right


def test_names_of_files_do_not_grow_with_each_replay(spark: SparkSession, settings: Settings, uri: str) -> None:
    before = files_of(uri)
    longest = []
    for run in ("one", "two"):
        assert replayed(spark, settings, run) == 0
        longest.append(max(map(len, newest(uri).file_uris())))
    assert files_of(uri) == before
    assert longest[0] == longest[1]


def test_maps_are_compared_whatever_the_order_of_their_keys(spark: SparkSession) -> None:
    pairs = ("'a', id, 'b', 0L", "'b', 0L, 'a', 0L")
    rows = [spark.range(2).selectExpr("id", f"map({each}) AS labels", f"1L AS {CHANGED}") for each in pairs]
    both = _keep_live_epochs._join(replace(DELAYS, key=("id",), partition_by=None), *rows)
    cut = Cut({"flights": Position(1, {})})
    found = _keep_live_epochs._compare(both, cut, cut, kappa=True)
    assert found == {None: _keep_live_epochs._Partition(2, 1, 1)}
