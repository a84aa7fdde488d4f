"""The bounds of one column of a data file, from its footer."""

from __future__ import annotations

from io import BytesIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from anabranch.lake.files import footer_bounds

pytestmark = pytest.mark.unit


def footer(table: pa.Table, **how: object) -> pq.FileMetaData:
    content = BytesIO()
    pq.write_table(table, content, **how)
    return pq.ParquetFile(content).metadata


def test_a_field_of_a_struct_with_the_same_name_is_another_column() -> None:
    rows = pa.table({"record": [{"epoch": 90}, {"epoch": 91}], "epoch": [3, None]})
    assert footer_bounds(footer(rows), "epoch") == (3, 3, 1)


def test_all_row_groups_count() -> None:
    assert footer_bounds(footer(pa.table({"n": [5, 1, 9, 2]}), row_group_size=2), "n") == (1, 9, 0)


@pytest.mark.parametrize("numbers", [[], [None, None]])
def test_without_a_value_there_are_none(numbers: list[int | None]) -> None:
    assert footer_bounds(footer(pa.table({"n": pa.array(numbers, pa.int64())})), "n") is None


def test_without_statistics_or_the_column_there_are_none() -> None:
    rows = pa.table({"n": [1]})
    assert footer_bounds(footer(rows, write_statistics=False), "n") is None
    assert footer_bounds(footer(rows), "m") is None
