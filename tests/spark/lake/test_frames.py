"""A table's rows by its list of files are the rows that Spark's own reader of Delta gives."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from anabranch.core.settings import Settings
from anabranch.lake import CommitMetadata
from anabranch.lake.commits import append, create, widen
from anabranch.lake.cut import Cut, Position
from anabranch.lake.files import stage_arrow
from anabranch.lake.frames import table_rows
from anabranch.views.model.handle import ViewHandle
from anabranch.views.selection.inputs import events_at
from deltalake import DeltaTable, write_deltalake
from support.landed_sample import FLIGHTS, Event, Landing, sample_views

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
START = datetime(2013, 1, 1, 5, tzinfo=UTC)
NOTE = CommitMetadata("writer", "batch", Cut())
DAYS = [START.date() + timedelta(days=n) for n in range(3)]


def departed(number: int) -> Event:
    data = {"origin": "JFK", "dest": "ATL", "carrier": "AA", "flight": number, "dep_delay": 0, "tailnum": "N1"}
    at = START + timedelta(days=number % 3, minutes=number)
    return Event("flight.departed", at, f"d{number}", data)


@pytest.fixture
def landing(settings: Settings) -> Landing:
    found = Landing(settings)
    found.land(*([departed(n), departed(n + 1)] for n in range(0, 40, 2)))
    return found


def by_delta(spark: SparkSession, uri: str, version: int | None = None) -> DataFrame:
    reader = spark.read.format("delta")
    return (reader if version is None else reader.option("versionAsOf", version)).load(uri)


def same(left: DataFrame, right: DataFrame) -> None:
    assert left.schema.simpleString() == right.schema.simpleString()
    assert left.count() == right.count() == left.intersectAll(right).count()


def test_all_rows_are_there_in_their_partitions(spark: SparkSession, landing: Landing) -> None:
    same(table_rows(spark, DeltaTable(landing.uri)), by_delta(spark, landing.uri))


@pytest.mark.parametrize("partition_by", [["day"], []])
def test_rows_without_a_date_are_in_a_partition_too(
    spark: SparkSession, tmp_path: Path, partition_by: list[str]
) -> None:
    schema, uri = pa.schema([("n", pa.int64()), ("day", pa.date32())]), str(tmp_path / "table")
    made = create(uri, schema, partition_by, NOTE)
    for number in range(3):
        rows = pa.table({"n": [1, 2, 3, 4], "day": [None, *DAYS]}, schema)
        append(made, stage_arrow(rows, uri, f"b{number}", partition_by[0] if partition_by else None), NOTE)
    same(table_rows(spark, made), by_delta(spark, uri))
    wanted = table_rows(spark, made, [None, DAYS[0]].__contains__)
    same(wanted, by_delta(spark, uri).where(f"day IS NULL OR day = DATE '{DAYS[0]}'" if partition_by else "true"))


@pytest.mark.parametrize(
    ("wanted", "sql"),
    [
        ({DAYS[1]}.__contains__, f"event_date = DATE '{DAYS[1]}'"),
        (lambda day: day is None or day > DAYS[0], f"event_date > DATE '{DAYS[0]}'"),
        (set[date | None]().__contains__, "false"),
    ],
)
def test_files_of_other_partitions_are_left_out(
    spark: SparkSession, landing: Landing, wanted: Callable[[date | None], bool], sql: str
) -> None:
    rows = table_rows(spark, DeltaTable(landing.uri), wanted)
    same(rows, by_delta(spark, landing.uri).where(sql))
    assert len(rows.inputFiles()) == (
        0 if sql == "false" else len(by_delta(spark, landing.uri).where(sql).inputFiles())
    )


def test_files_of_later_epochs_are_left_out_and_no_row_of_the_others_is_asked(
    spark: SparkSession, landing: Landing
) -> None:
    """Each file is of one epoch, and its statistics say of which."""
    rows = table_rows(spark, DeltaTable(landing.uri), at_most=("epoch", 7))
    expected = by_delta(spark, landing.uri).where("epoch <= 7")
    same(rows, expected)
    assert 0 < len(rows.inputFiles()) == len(expected.inputFiles())
    assert "epoch#" not in plan(rows.select("offset"))


@pytest.mark.parametrize("statistics", ["32", "0"])
@pytest.mark.parametrize("numbers", [[1, 2, 3], [1, None, 2], [1, None, 3], [2, 2], [3, 3], [None, None]])
def test_rows_of_files_whose_statistics_do_not_decide_are_asked(
    spark: SparkSession, tmp_path: Path, numbers: list[int | None], statistics: str
) -> None:
    """Also where an older version, or somebody else, has written a file without them."""
    for each in ([1, 2], numbers):
        rows = pa.table({"n": each, "day": [DAYS[0]] * len(each)}, pa.schema([("n", pa.int64()), ("day", pa.date32())]))
        kept = {"delta.dataSkippingNumIndexedCols": statistics}
        write_deltalake(tmp_path, rows, partition_by=["day"], mode="append", configuration=kept)
    found = table_rows(spark, DeltaTable(tmp_path), at_most=("n", 2))
    same(found, by_delta(spark, str(tmp_path)).where("n <= 2"))


@pytest.mark.parametrize("by_files", [True, False])
def test_who_checks_asks_each_row_whatever_the_log_says(
    spark: SparkSession, landing: Landing, monkeypatch: pytest.MonkeyPatch, by_files: bool
) -> None:
    """Here it says of every file that its rows are of epoch 0: what was computed by that shows."""
    cut = Cut({"flights": Position(7, {})})
    monkeypatch.setattr("anabranch.lake.frames._values", lambda listed, path, *_: [
        listed[path].to_pylist(), *([0] * len(listed) for _ in range(3))
    ])  # fmt: skip
    view = ViewHandle(landing.settings, sample_views().get("departure_delays"), FLIGHTS)
    found = events_at(spark, view, cut, DAYS, late=True, by_files=by_files).select("offset", "epoch")
    right = by_delta(spark, landing.uri).where("epoch <= 7").select("offset", "epoch")
    assert (found.count() == right.count()) is not by_files


def test_rows_without_their_partition_do_not_ask_for_their_file(spark: SparkSession, landing: Landing) -> None:
    rows = table_rows(spark, DeltaTable(landing.uri), {DAYS[1]}.__contains__, partition_column=False)
    same(rows, by_delta(spark, landing.uri).where(f"event_date = DATE '{DAYS[1]}'").drop("event_date"))
    dated = table_rows(spark, DeltaTable(landing.uri)).select("offset", "event_date")
    assert "file_path" in plan(dated)
    assert "file_path" not in plan(rows.select("offset"))
    assert "_metadata" not in plan(rows.select("offset"))


def plan(rows: DataFrame) -> str:
    return str(rows._jdf.queryExecution().executedPlan().toString())


def test_an_older_version_has_the_rows_and_columns_that_it_had(spark: SparkSession, landing: Landing) -> None:
    before = landing.table.version()
    widen(landing.table, pa.schema([("grown", pa.int64())]), CommitMetadata("landing/flights", "grow", landing.cut))
    landing.land([departed(50)])
    same(table_rows(spark, DeltaTable(landing.uri)), by_delta(spark, landing.uri))
    same(table_rows(spark, DeltaTable(landing.uri, version=before)), by_delta(spark, landing.uri, before))


def test_no_job_looks_for_files(spark: SparkSession, landing: Landing) -> None:
    """Spark lists more than 32 paths by a job otherwise."""
    tracker, group = spark.sparkContext.statusTracker(), f"listing of {landing.uri}"
    spark.sparkContext.setJobGroup(group, group)
    try:
        assert len(table_rows(spark, DeltaTable(landing.uri)).inputFiles()) > 32
        assert not tracker.getJobIdsForGroup(group)
    finally:
        spark.sparkContext.setJobGroup("", "")
