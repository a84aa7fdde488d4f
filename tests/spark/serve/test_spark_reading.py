"""Spark reads the same rows as everybody else, natively, with the same predicate."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import anabranch
import pyarrow as pa
import pytest
from anabranch.core.settings import Settings
from anabranch.serve._predicates import parse_predicate
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

sys.path.insert(0, str(Path(__file__).parents[2] / "unit" / "serving"))
from support import one_meaning, small_halves
from support.small_halves import DAYS, KEYS, VIEW

pytestmark = pytest.mark.spark


@pytest.fixture
def published(settings: Settings) -> Settings:
    small_halves.start_speed(settings, 3)
    small_halves.publish(settings, {DAYS[0]: 3, DAYS[1]: 2}, DAYS[:2])
    return settings


@pytest.mark.parametrize(
    "where",
    [
        None,
        "origin = 'O''1'",
        "origin in ('O''1', 'O''2') and not (window_start < timestamp '2013-01-02 05:00')",
        "written_by is null or origin like '%''2'",
        "window_start between '2013-01-01 10:00' and '2013-01-02' and mean_delay > 1.1",
        "cast(window_start as date) = date '2013-01-03' and hour(window_start) = 5",
        "coalesce(written_by, -1) < 0",
        "origin <> '${spark.app.name}\\'",
    ],
)
def test_spark_and_arrow_give_the_same_rows(spark: SparkSession, published: Settings, where: str | None) -> None:
    reading = anabranch.read(VIEW, settings=published, where=where)

    from_spark = reading.to_spark(spark).toArrow().cast(reading.schema)

    order = [("window_start", "ascending")]
    assert from_spark.sort_by(order).equals(reading.to_arrow().sort_by(order))
    assert reading.to_arrow().num_rows > 0


def test_a_spark_reading_stays_as_it_was_pinned(spark: SparkSession, published: Settings) -> None:
    reading = anabranch.read(VIEW, settings=published)
    small_halves.merge_speed(published, 4, DAYS[2:3])
    small_halves.publish(published, {DAYS[0]: 4}, DAYS[:1])

    rows = reading.to_spark(spark).collect()

    assert len(rows) == KEYS * len(DAYS)
    assert {row["written_by"] for row in rows} == {3, None}
    assert "_epoch" not in rows[0].asDict()


def test_spark_reads_a_day_that_is_ahead_of_speed_as_it_was_before(spark: SparkSession, settings: Settings) -> None:
    small_halves.start_speed(settings, 3, DAYS[4:])
    for published in ({DAYS[0]: 1}, {DAYS[0]: 5}, {DAYS[0]: 5, DAYS[1]: 2}, {DAYS[0]: 5, DAYS[1]: 6, DAYS[2]: 3}):
        small_halves.publish(settings, published, list(published)[-2:])

    reading = anabranch.read(VIEW, settings=settings, where="written_by > 0")

    from_spark = reading.to_spark(spark).toArrow().cast(reading.schema)
    order = [("window_start", "ascending")]
    assert from_spark.sort_by(order).equals(reading.to_arrow().sort_by(order))
    assert sorted(set(from_spark["written_by"].to_pylist())) == [1, 2, 3]


def test_spark_compares_small_floats_as_duckdb_does(spark: SparkSession) -> None:
    import duckdb

    values = [0.1, -0.5, 2.0, 16_777_216.0, 3.14159265]
    schema = pa.schema([("small", pa.float32())])
    known = pa.table({"small": pa.array(values, pa.float32())})
    rows = spark.createDataFrame([(value,) for value in values], "small float")
    for where in ("small = 0.1", "small in (-0.5, 3.14159265)", "small >= 16777217", "small = 1e-1", "0.1 < small"):
        found = parse_predicate(where, schema)
        expected = duckdb.connect().from_arrow(known).filter(found.duckdb).to_arrow_table()["small"].to_pylist()
        assert [row["small"] for row in rows.where(F.expr(found.spark)).collect()] == expected, where


def test_spark_finds_the_rows_that_every_engine_finds(spark: SparkSession) -> None:
    """Casts above all: Spark alone would drop what is behind the point of a number, and read 'today' as a day."""
    rows = [tuple(row.values()) for row in one_meaning.TABLE.to_pylist()]
    known = spark.createDataFrame(rows, one_meaning.SPARK_SCHEMA)
    predicates = [parse_predicate(where, one_meaning.TABLE.schema).spark for where in one_meaning.SAME]
    marked = known.select("n", F.array(*map(F.expr, predicates)).alias("true")).collect()  # one job, not forty
    found = {where: [row["n"] for row in marked if row["true"][at]] for at, where in enumerate(one_meaning.SAME)}
    assert found == one_meaning.SAME
