"""A table's rows by its list of files are the rows that Spark's own reader of Delta gives."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pyarrow as pa
import pytest
from anabranch.core.errors import BrokenState
from anabranch.core.settings import Settings
from anabranch.lake import CommitMetadata
from anabranch.lake.commits import append, create, widen
from anabranch.lake.cut import Cut
from anabranch.lake.files import stage_arrow
from anabranch.lake.frames import table_rows
from deltalake import ColumnProperties, DeltaTable, WriterProperties, write_deltalake
from support.landed_sample import Event, Landing

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
    """Each file is of one epoch, and its footer says of which."""
    rows = table_rows(spark, DeltaTable(landing.uri), at_most=("epoch", 7))
    expected = by_delta(spark, landing.uri).where("epoch <= 7")
    same(rows, expected)
    assert 0 < len(rows.inputFiles()) == len(expected.inputFiles())
    assert "epoch#" not in plan(rows.select("offset"))


@pytest.mark.parametrize("footers", ["CHUNK", "NONE"])
@pytest.mark.parametrize("numbers", [[1, 2, 3], [1, None, 2], [1, None, 3], [2, 2], [3, 3], [None, None]])
def test_rows_of_files_whose_footers_do_not_decide_are_asked(
    spark: SparkSession, tmp_path: Path, numbers: list[int | None], footers: Literal["CHUNK", "NONE"]
) -> None:
    """Also where somebody else has written a file without bounds."""
    for each in ([1, 2], numbers):
        rows = pa.table({"n": each, "day": [DAYS[0]] * len(each)}, pa.schema([("n", pa.int64()), ("day", pa.date32())]))
        kept = WriterProperties(default_column_properties=ColumnProperties(statistics_enabled=footers))
        write_deltalake(tmp_path, rows, partition_by=["day"], mode="append", writer_properties=kept)
    found = table_rows(spark, DeltaTable(tmp_path), at_most=("n", 2))
    same(found, by_delta(spark, str(tmp_path)).where("n <= 2"))
    asked = footers == "NONE" or numbers not in ([2, 2], [3, 3])
    assert ("n#" in plan(found.select("day"))) is asked


@pytest.mark.parametrize("said", [0, 9])
def test_files_are_chosen_by_their_footers_whatever_the_log_says(
    spark: SparkSession, tmp_path: Path, said: int
) -> None:
    """A build and the certificate that checks it would be wrong alike, if both went by the same wrong statement."""
    for each in ([1, 2], [2, 3], [3, 4]):
        write_deltalake(tmp_path, pa.table({"n": pa.array(each, pa.int64())}), mode="append")
    for commit in (tmp_path / "_delta_log").glob("*.json"):
        actions = [json.loads(line) for line in commit.read_text().splitlines()]
        for action in actions:
            if "add" in action:
                bounds = {"minValues": {"n": said}, "maxValues": {"n": said}, "nullCount": {"n": 0}}
                action["add"]["stats"] = json.dumps({"numRecords": 2, **bounds})
        commit.write_text("\n".join(map(json.dumps, actions)))
    table = DeltaTable(tmp_path)
    assert set(pa.table(table.get_add_actions(flatten=True))["max.n"].to_pylist()) == {said}
    found = table_rows(spark, table, at_most=("n", 2))
    assert len(found.inputFiles()) == 2
    assert sorted(row["n"] for row in found.collect()) == [1, 2, 2]


def test_a_file_whose_path_names_another_day_than_the_log_is_of_neither(spark: SparkSession, tmp_path: Path) -> None:
    days = pa.array([DAYS[0], DAYS[1]], pa.date32())
    write_deltalake(tmp_path, pa.table({"n": pa.array([1, 2], pa.int64()), "day": days}), partition_by=["day"])
    (commit,) = (tmp_path / "_delta_log").glob("*.json")
    commit.write_text(commit.read_text().replace(f'"day":"{DAYS[0]}"', f'"day":"{DAYS[1]}"'))
    table = DeltaTable(tmp_path)
    for day, numbers in {DAYS[0]: [], DAYS[1]: [2]}.items():
        rows = table_rows(spark, table, {day}.__contains__)
        assert [row["n"] for row in rows.collect()] == numbers


def test_a_day_is_a_partition_to_spark_and_costs_no_row_anything(spark: SparkSession, landing: Landing) -> None:
    rows = table_rows(spark, DeltaTable(landing.uri)).where(f"event_date = DATE '{DAYS[1]}'").select("offset")
    filters = plan(rows).split("PartitionFilters: [")[1].split("]")[0]
    assert f"= {DAYS[1]}" in filters
    assert "\n+- Project" not in plan(rows.select("offset"))
    assert "_metadata" not in plan(rows)
    without = table_rows(spark, DeltaTable(landing.uri), partition_column=False)
    same(without, by_delta(spark, landing.uri).drop("event_date"))


@pytest.mark.parametrize("folder", ["a+b~c,d", "e=1", "day=2001-01-01"])
def test_folders_above_the_table_say_nothing(spark: SparkSession, tmp_path: Path, folder: str) -> None:
    days = pa.array([DAYS[0], DAYS[1], None], pa.date32())
    rows = pa.table({"n": pa.array([1, 2, 3], pa.int64()), "day": days})
    write_deltalake(tmp_path / folder, rows, partition_by=["day"])
    found = table_rows(spark, DeltaTable(tmp_path / folder))
    assert sorted(map(tuple, found.collect())) == [(1, DAYS[0]), (2, DAYS[1]), (3, None)]


def test_a_missing_file_is_no_empty_one(spark: SparkSession, landing: Landing) -> None:
    lost = next(Path(landing.uri).rglob("*.parquet"))
    lost.unlink()
    with pytest.raises(BrokenState, match=lost.name) as error:
        table_rows(spark, DeltaTable(landing.uri))
    assert error.value.code == "FILE_UNREADABLE"


def test_folders_that_spark_names_otherwise_are_not_empty_ones(
    spark: SparkSession, landing: Landing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anabranch.lake._spark_relation._Jvm.qualified", lambda _, path: str(path))
    with pytest.raises(RuntimeError, match=f"file:{landing.uri}"):
        table_rows(spark, DeltaTable(landing.uri))


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
