"""Spark skips files by our statistics, never one with a row that it looks for; what it has staged has them, too."""

from __future__ import annotations

import json
import math
import random
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa
import pytest
from anabranch.lake import CommitMetadata
from anabranch.lake.commits import append, create
from anabranch.lake.cut import Cut
from anabranch.lake.files import StagedFile, stage_arrow, stage_frame
from deltalake import DeltaTable
from support import random_tables

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession
    from pyspark.sql.types import StructType

pytestmark = pytest.mark.spark
NOTE = CommitMetadata("test", "0", Cut())


def rows_of(chance: random.Random) -> list[list[dict[str, object]]]:
    return [random_tables.random_rows(chance, 10 * number, 6) for number in range(4)]


def test_spark_finds_the_rows_that_python_finds(spark: SparkSession, tmp_path: Path) -> None:
    chance = random.Random(7)
    files = rows_of(chance)
    table = create(str(tmp_path), random_tables.SCHEMA, [], NOTE)
    for number, rows in enumerate(files):
        (staged,) = stage_arrow(pa.Table.from_pylist(rows, random_tables.SCHEMA), str(tmp_path), f"b{number}", None)
        if number == 0:  # as a file of an older home
            staged = StagedFile(staged.path, staged.size, staged.rows, {}, f'{{"numRecords": {staged.rows}}}')
        append(table, [staged], NOTE)
    found = spark.read.format("delta").load(str(tmp_path))

    for question in (random_tables.random_question(chance) for _ in range(40)):
        if question.column != "bytes":
            chosen = found.where(condition(question, found.schema)).select("number").collect()
            assert sorted(row.number for row in chosen) == question.answer([r for f in files for r in f]), question


def condition(question: random_tables.Question, kinds: StructType) -> Column:
    from pyspark.sql import functions as F

    column = F.col(f"`{question.column}`")
    if question.sign == "null":
        return column.isNull()
    value = question.value.isoformat() if isinstance(question.value, date) else question.value
    compared: Column = random_tables.OPERATORS[question.sign](
        column, F.lit(value).cast(kinds[question.column].dataType)
    )
    return compared


def test_what_spark_has_staged_has_full_statistics(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.createDataFrame(
        [(1, "y" * 5_000, 0.5, {"a": 1}), (2, "😀", None, None)],
        "number bigint, text string, real double, m map<string, int>",
    )

    (staged,) = stage_frame(frame.coalesce(1), str(tmp_path), "build", None)

    assert json.loads(staged.stats) == {
        "numRecords": 2,
        "minValues": {"number": 1, "text": "y" * 32, "real": 0.5},
        "maxValues": {"number": 2, "text": "😀", "real": 0.5},
        "nullCount": {"number": 0, "text": 0, "real": 1},
    }


def test_a_nan_that_spark_has_staged_leaves_the_count_alone(spark: SparkSession, tmp_path: Path) -> None:
    table = create(str(tmp_path), pa.schema([("number", pa.int64()), ("real", pa.float64())]), [], NOTE)
    frame = spark.createDataFrame([(1, 0.5), (2, math.nan), (3, 7.0)], "number bigint, real double")

    staged = stage_frame(frame.coalesce(1), str(tmp_path), "build", None)
    append(table, staged, NOTE)

    assert [file.stats for file in staged] == ['{"numRecords":3}']
    by_spark = spark.read.format("delta").load(str(tmp_path)).where("real = double('NaN')").collect()
    by_polars = pl.scan_delta(DeltaTable(str(tmp_path)).table_uri).filter(pl.col("real") > 7).collect()
    assert ([row.number for row in by_spark], by_polars["number"].to_list()) == ([2], [2])


def test_spark_does_not_open_a_file_that_cannot_match(spark: SparkSession, tmp_path: Path) -> None:
    schema = pa.schema([("number", pa.int64()), ("text", pa.string())])
    table = create(str(tmp_path), schema, [], NOTE)
    for number, text in enumerate(["a" * 40, "z" * 40]):
        append(table, stage_arrow(pa.table([[number], [text]], schema=schema), str(tmp_path), text[0], None), NOTE)
    for file in (tmp_path / "builds" / "z").glob("*.parquet"):
        file.write_bytes(b"never read")

    rows = spark.read.format("delta").load(str(tmp_path)).where(f"text = '{'a' * 40}'").collect()

    assert [row.number for row in rows] == [0]
