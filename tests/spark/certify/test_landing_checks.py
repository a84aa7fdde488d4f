"""The checks of landed rows: each thing that is wrong is found on its day, however few rows are read for it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from anabranch.certify._checks import landing_checks
from anabranch.certify._run_checks import Subject, run_checks
from support.departure_halves import DAYS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
NOON = datetime(2013, 1, 1, 12, tzinfo=UTC)
GOOD = {
    "topic": "flights", "partition": 0, "offset": 1, "append_time": NOON, "epoch": 1, "decision": "valid",
    "reason": None, "late": False, "type": "flight.departed", "event_id": "e", "source": "airline",
    "released_from": None, "event_time": NOON, "partition_date": DAYS[0],
}  # fmt: skip
DEFECTS = [
    *((f"{name}_not_null", {name: None}) for name in ("topic", "partition", "append_time", "epoch")),
    ("decision_known", {"decision": "maybe"}),
    ("decision_known", {"partition": -1}),
    ("decision_known", {"decision": "loaded", "late": None}),
    *(("decisions_complete", {name: None}) for name in ("late", "type", "event_id", "source")),
    ("decisions_complete", {"decision": "loaded", "partition": -1}),
    ("decisions_complete", {"decision": "quarantined"}),
]


def test_an_event_lies_on_its_date(spark: SparkSession) -> None:
    (on_date,) = (check for check in landing_checks() if check.name == "event_time_on_its_date")
    rows = [(DAYS[0], "valid", NOON), (DAYS[1], "valid", NOON), (DAYS[1], "duplicate", NOON), (DAYS[2], "loaded", None)]
    tick = timedelta(microseconds=1)
    for day in (date(2012, 2, 29), date(1969, 12, 31), date(1601, 1, 1), date(9999, 12, 30)):
        midnight = datetime(day.year, day.month, day.day, tzinfo=UTC)
        right = (midnight, midnight + timedelta(days=1) - tick)
        wrong = (midnight - tick, midnight + timedelta(days=1))
        rows += [(day, "valid", at) for at in (*right, *wrong)]
    frame = spark.createDataFrame(rows, "partition_date date, decision string, event_time timestamp")
    (found,) = run_checks(spark, [Subject("landing", frame, [on_date])])
    days = {day for day, _, _ in rows} - set(DAYS)
    assert found.offending == {DAYS[1]: 1, DAYS[2]: 1, **dict.fromkeys(days, 2)}


@pytest.mark.parametrize(("name", "defect"), DEFECTS)
def test_one_row_that_is_wrong_is_found_among_files_whose_statistics_rule_it_out(
    spark: SparkSession, tmp_path: Path, name: str, defect: dict[str, Any]
) -> None:
    good = [{**GOOD, "offset": offset} for offset in range(20)]
    frame = _file(spark, tmp_path, [*good, {**GOOD, "offset": 20, **defect}])

    found = {check.check: check for check in run_checks(spark, [Subject("landing", frame, landing_checks())])}

    assert {check: dict(each.offending) for check, each in found.items() if each.failed} == {name: {DAYS[0]: 1}}
    assert {each.rows for each in found.values()} == {21}


def test_what_the_statistics_rule_out_is_not_read(spark: SparkSession, tmp_path: Path) -> None:
    frame = _file(spark, tmp_path, [{**GOOD, "offset": offset} for offset in range(20)])
    rare = [check for check in landing_checks() if check.rare]
    assert len(rare) == 8

    def read(where: str) -> int:
        query = frame.where(where).selectExpr("sum(hash(*))")
        query.collect()
        (scan,) = _elements(query._jdf.queryExecution().executedPlan().collectLeaves())
        return int(scan.metrics().apply("numOutputRows").value())

    assert read("true") == 20
    assert read(" OR ".join(f"({check.offends})" for check in rare)) == 0


def test_the_screen_of_offsets_finds_each_that_is_there_twice_and_no_other(spark: SparkSession) -> None:
    """The days are those of the exact query: 130 offsets are in three groups of the screen."""
    unique = next(check for check in landing_checks() if check.name == "offsets_unique")
    every = [(DAYS[offset % 2], partition, offset, None) for partition in (0, 1) for offset in range(130)]
    again = [(DAYS[2], 1, 63, None), (DAYS[2], 0, 5, "released"), (DAYS[0], 0, 129, None)]
    columns = "partition_date date, partition int, offset long, released_from string"

    def asked(rows: list[tuple[Any, ...]]) -> dict[date | None, int]:
        frame = spark.createDataFrame(rows, columns)
        (found,) = run_checks(spark, [Subject("landing", frame, [unique])])
        return dict(found.offending)

    assert asked(every) == {}
    assert asked([*every, again[1]]) == {}, "a released record lies beside the one that it was"
    assert asked([*every, *again]) == {DAYS[0]: 1, DAYS[1]: 1}


def test_conditions_count_each_row_once_though_a_screen_groups_the_rows_too(spark: SparkSession) -> None:
    names = ("offsets_unique", "topic_not_null")
    checks = [replace(check, rare=False) for check in landing_checks() if check.name in names]
    days = (*DAYS[:2], None)  # a quarantined record may have no day
    rows = [(days[n % 3], 0, n, None, None if n < 70 else "flights") for n in range(210)]
    columns = "partition_date date, partition int, offset long, released_from string, topic string"

    def asked(more: list[tuple[Any, ...]]) -> dict[str, tuple[int, dict[date | None, int]]]:
        frame = spark.createDataFrame([*rows, *more], columns)
        found = run_checks(spark, [Subject("landing", frame, checks)])
        return {check.check: (check.rows, dict(check.offending)) for check in found}

    missing = {DAYS[0]: 24, DAYS[1]: 23, None: 23}
    assert asked([]) == {"topic_not_null": (210, missing), "offsets_unique": (210, {})}
    twice = asked([(DAYS[2], 0, 200, None, "flights")])
    assert twice == {"topic_not_null": (211, missing), "offsets_unique": (211, {DAYS[2]: 1})}


def _file(spark: SparkSession, folder: Path, rows: list[dict[str, Any]]) -> DataFrame:
    """Of row groups of ten rows, as landing's are of many more."""
    types = {"partition": pa.int32(), "released_from": pa.int64(), "reason": pa.string(), "late": pa.bool_()}
    table = pa.Table.from_pylist(rows)
    for column, kind in types.items():
        place = table.schema.get_field_index(column)
        table = table.set_column(place, pa.field(column, kind), table[column].cast(kind))
    pq.write_table(table, folder / "landed.parquet", row_group_size=10)
    return spark.read.parquet(str(folder / "landed.parquet"))


def _elements(found: Any) -> list[Any]:
    return [found.apply(number) for number in range(found.size())]
