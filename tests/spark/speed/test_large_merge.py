"""A large merge does what a small one does: rows are replaced by key, others stay, and only files that hold them go."""

from __future__ import annotations

import random
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from anabranch.compute.speed.table import SpeedTable
from anabranch.core.errors import BadDefinition, Conflict
from anabranch.lake import CommitMetadata
from anabranch.lake.commits import append
from anabranch.lake.cut import Cut, Position
from anabranch.lake.files import stage_arrow
from anabranch.views import View
from anabranch.views.model.definition import PARTITION_DATE
from deltalake import DeltaTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
COLUMNS = [
    ("k", pa.string()),
    ("second", pa.int64()),
    ("n", pa.int64()),
    ("day", pa.date32()),
    (PARTITION_DATE, pa.date32()),
]
SCHEMA = pa.schema(COLUMNS)
DAYS = [date(2013, 1, day) for day in range(1, 5)]
TYPES = f"k string, second long, n long, day date, {PARTITION_DATE} date"
Row = tuple[str | None, int, int, date | None]


def _same(events: DataFrame) -> DataFrame:
    return events


def view(*, kappa: bool) -> View:
    key, partition = ("k", "second") if kappa else ("k", "second", "day"), None if kappa else "day"
    return View("merged", 1, ("flight.departed",), key, _same, partition_by=partition, fingerprint="m-1")


def arrow(*rows: Row) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, (*row, row[3]), strict=True)) for row in rows], SCHEMA)


def frame(spark: SparkSession, *rows: Row) -> DataFrame:
    return spark.createDataFrame([(*row, row[3]) for row in rows], TYPES).persist()


def note(table: SpeedTable, batch: int) -> CommitMetadata:
    return table.note(f"cp:{batch}", Cut({"flights": Position(batch + 1, {0: batch + 1})}))


def rows_of(uri: str) -> list[tuple[Any, ...]]:
    found = DeltaTable(uri).to_pyarrow_table().select(SCHEMA.names).to_pylist()
    return sorted((tuple(row.values()) for row in found), key=str)


@pytest.mark.parametrize("kappa", [False, True])
def test_random_batches_end_in_the_same_rows(spark: SparkSession, tmp_path: Path, kappa: bool) -> None:
    chance, tables = random.Random(7), [SpeedTable(str(tmp_path / n), view(kappa=kappa), SCHEMA) for n in ("s", "l")]
    small, large = tables
    for batch in range(4):
        keys = {(chance.choice(["a", "O'Hare", None, "é"]), chance.randrange(6), day) for day in DAYS for _ in range(5)}
        given = [(k, second, 100 * batch + n, day) for n, (k, second, day) in enumerate(sorted(keys, key=str))]
        if kappa:
            given = list({row[:2]: row for row in given}.values())
        for table in tables:
            table.newest()
        small.merge_small(arrow(*given), batch, note(small, batch))
        large.merge_large(rows := frame(spark, *given), batch, note(large, batch))
        rows.unpersist()
        assert rows_of(large.uri) == rows_of(small.uri)
        assert large.newest().note == note(large, batch)


def test_files_without_a_row_of_the_keys_stay(spark: SparkSession, tmp_path: Path) -> None:
    table = SpeedTable(str(tmp_path / "speed"), view(kappa=False), SCHEMA)
    for batch, (key, day) in enumerate([("a", DAYS[0]), ("b", DAYS[0]), ("a", DAYS[1])]):
        table.newest()
        table.merge_small(arrow((key, 1, batch, day)), batch, note(table, batch))
    before = set(DeltaTable(table.uri).file_uris())
    table.newest()
    table.merge_large(rows := frame(spark, ("a", 1, 9, DAYS[0]), ("c", 1, 9, DAYS[2])), 3, note(table, 3))
    rows.unpersist()
    assert len(before & set(DeltaTable(table.uri).file_uris())) == 2
    assert [row[2] for row in rows_of(table.uri)] == [2, 9, 1, 9]


def test_another_writer_that_was_quicker_is_a_conflict(spark: SparkSession, tmp_path: Path) -> None:
    table = SpeedTable(str(tmp_path / "speed"), view(kappa=False), SCHEMA)
    other = DeltaTable(table.uri)
    append(other, stage_arrow(arrow(("z", 1, 1, DAYS[0])), table.uri, "other", PARTITION_DATE), note(table, 7))
    rows = frame(spark, ("a", 1, 9, DAYS[0]))
    with pytest.raises(Conflict) as caught:
        table.merge_large(rows, 0, note(table, 0))
    assert caught.value.code == "TABLE_MOVED"
    assert rows_of(table.uri) == [("z", 1, 1, DAYS[0], DAYS[0])]
    with pytest.raises(BadDefinition):
        table.merge_large(frame(spark, ("a", 1, 9, None)), 0, note(table, 0))
