"""What counts as breaking: a column that is gone, and a type that doesn't hold every value of the old one."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from anabranch.certify.breaking_changes import BreakingChange, breaking_changes, breaking_columns, undeclared_text
from anabranch.core.settings import Settings

pytestmark = pytest.mark.unit
PAIR = pa.struct([("a", pa.int32()), ("b", pa.string())])


@pytest.mark.parametrize(
    ("old", "new", "breaks"),
    [
        (pa.int64(), pa.int64(), False),
        (pa.int32(), pa.int64(), False),
        (pa.int64(), pa.int32(), True),
        (pa.int32(), pa.string(), True),
        (pa.float32(), pa.float64(), False),
        (pa.float64(), pa.float32(), True),
        (pa.float64(), pa.int64(), True),
        (pa.decimal128(10, 2), pa.decimal128(12, 3), False),
        (pa.decimal128(10, 2), pa.decimal128(10, 3), True),
        (pa.decimal128(10, 2), pa.decimal128(12, 1), True),
        (pa.timestamp("us", "UTC"), pa.date32(), True),
        (pa.string(), pa.large_string(), False),
        (PAIR, pa.struct([("a", pa.int64()), ("b", pa.string()), ("c", pa.string())]), False),
        (PAIR, pa.struct([("a", pa.int32())]), True),
        (pa.list_(pa.int32()), pa.list_(pa.int64()), False),
        (pa.list_(pa.int64()), pa.list_(pa.int32()), True),
        (pa.map_(pa.string(), pa.int32()), pa.map_(pa.string(), pa.int64()), False),
        (pa.map_(pa.string(), pa.int64()), pa.map_(pa.string(), pa.int32()), True),
    ],
)
def test_a_type_that_holds_fewer_values_breaks_readers(old: pa.DataType, new: pa.DataType, breaks: bool) -> None:
    found = breaking_columns(pa.schema([("x", old)]), pa.schema([("x", new), ("more", pa.int64())]))
    assert [each.column for each in found] == (["x"] if breaks else [])


def test_a_column_that_is_gone_breaks_readers_and_one_more_does_not() -> None:
    old, new = pa.schema([("x", pa.int64()), ("y", pa.int64())]), pa.schema([("x", pa.int64()), ("z", pa.int64())])
    (gone,) = breaking_columns(old, new)
    assert str(gone) == "y is removed"
    assert undeclared_text(1, 2, [gone], []) == "v2 breaks readers of v1, and this was not declared: y is removed"
    assert undeclared_text(1, 2, [gone], ["y"]) == ""
    assert str(BreakingChange("y", "int64", "int32")) == "y changes from int64 to int32"


def test_a_version_without_a_table_has_none_yet(tmp_path: Path) -> None:
    assert breaking_changes(Settings(home=tmp_path), "delays", 1, 2) == ()
