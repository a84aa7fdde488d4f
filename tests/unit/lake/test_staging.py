"""Staged files: nobody's until a commit names them, and found by a filter on any column afterwards."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from anabranch.lake import CommitMetadata
from anabranch.lake.commits import append, create
from anabranch.lake.cut import Cut
from anabranch.lake.files import StagedFile, stage_arrow
from deltalake import DeltaTable

pytestmark = pytest.mark.unit

NOTE = CommitMetadata("test", "0", Cut())
ROW: dict[str, Any] = {
    "text": "O'Hare",
    "number": 5,
    "real": 0.5,
    "flag": True,
    "time": datetime(2013, 1, 1, 10, tzinfo=UTC),
    "bytes": b"\x00\xff",
    "struct": {"city": "Chicago"},
    "day": date(2013, 1, 1),
}
SCHEMA = pa.schema(
    [
        ("text", pa.string()),
        ("number", pa.int64()),
        ("real", pa.float64()),
        ("flag", pa.bool_()),
        ("time", pa.timestamp("us", "UTC")),
        ("bytes", pa.binary()),
        ("struct", pa.struct([("city", pa.string())])),
        ("day", pa.date32()),
    ]
)


def staged_into(uri: str, rows: list[dict[str, Any]], partition: str | None = "day") -> list[StagedFile]:
    return stage_arrow(pa.Table.from_pylist(rows, SCHEMA), uri, "build", partition)


@pytest.fixture
def filled(tmp_path: Path) -> DeltaTable:
    uri = str(tmp_path / "table")
    table = create(uri, SCHEMA, ["day"], NOTE)
    other = {"text": "A", "number": -5, "day": date(2013, 1, 2)}
    append(table, staged_into(uri, [ROW, other, {"text": "no day"}]), NOTE)
    return DeltaTable(uri)


@pytest.mark.parametrize("column", [name for name in SCHEMA.names if name != "struct"])
def test_a_filter_on_any_column_finds_the_row(filled: DeltaTable, column: str) -> None:
    # Statistics for some columns only make delta-rs prune the files for all others, without a word.
    found = filled.to_pyarrow_dataset().to_table(
        filter=ds.field(column) == pa.scalar(ROW[column], SCHEMA.field(column).type)
    )
    assert found["text"].to_pylist() == ["O'Hare"]
    landed = filled.to_pyarrow_dataset()  # noqa: F841 - DuckDB finds it by its name
    query = f'select text from landed where "{column}" = ?'  # noqa: S608 - the column is one of SCHEMA's
    by_duckdb = duckdb.sql(query, params=[ROW[column]])
    assert by_duckdb is not None
    assert by_duckdb.fetchall() == [("O'Hare",)]
    lazy = pl.scan_delta(filled.table_uri).filter(pl.col(column) == pl.lit(ROW[column]))
    assert lazy.select("text").collect()["text"].to_list() == ["O'Hare"]


def test_a_null_partition_is_null_again(filled: DeltaTable) -> None:
    found = filled.to_pyarrow_dataset().to_table(filter=ds.field("day").is_null())
    assert (found["text"].to_pylist(), found["day"].to_pylist()) == (["no day"], [None])
    assert filled.count() == 3


def test_staged_files_are_nobodys_until_a_commit_names_them(filled: DeltaTable) -> None:
    uri = filled.table_uri.removeprefix("file://")
    staged = stage_arrow(pa.Table.from_pylist([ROW], SCHEMA), uri, "unborn", "day")
    assert (Path(uri) / staged[0].path).exists()
    assert DeltaTable(uri).count() == 3
    append(filled, staged, NOTE)
    assert DeltaTable(uri).count() == 4


def test_nothing_is_staged_of_no_rows(tmp_path: Path) -> None:
    assert staged_into(str(tmp_path), []) == []
    assert list(tmp_path.iterdir()) == []
    (whole,) = staged_into(str(tmp_path), [ROW, ROW], None)
    assert (whole.rows, dict(whole.partition), json.loads(whole.stats)["numRecords"]) == (2, {}, 2)
