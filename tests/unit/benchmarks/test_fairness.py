"""A rival that has it easier, or harder, gives no figure."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from benchmarks.cases.start import seconds_until
from benchmarks.fairness import DifferentLayout, check_layout, layout_of

pytestmark = pytest.mark.unit
ROWS = pa.table({"offset": [1, 2], "data": [{"city": "Oslo", "cents": 1}, {"city": "Rome", "cents": 2}], "own": [1, 2]})


def made(folder: Path, indexed: str | None, rows: pa.Table = ROWS) -> str:
    write_deltalake(folder, rows, configuration={"delta.dataSkippingStatsColumns": indexed} if indexed else None)
    return str(folder)


def test_the_columns_with_bounds_are_those_of_the_log(tmp_path: Path) -> None:
    found = layout_of(made(tmp_path / "one", None))
    assert found.bounds == {"offset", "data.city", "data.cents", "own"}
    assert layout_of(made(tmp_path / "two", "own")).bounds == {"own"}


def test_a_rival_with_bounds_of_more_columns_has_it_harder(tmp_path: Path) -> None:
    few, many = made(tmp_path / "few", "offset"), made(tmp_path / "many", "offset,own")
    with pytest.raises(DifferentLayout, match="own"):
        check_layout(few, many)
    assert "bounds of 2 and 1 columns" in check_layout(many, few)


def test_bounds_are_those_of_the_commit_with_most_files(tmp_path: Path) -> None:
    """The last micro-batch of a topic may be small, and written in another way."""
    folder = made(tmp_path / "table", "offset,own")
    for log in (tmp_path / "table" / "_delta_log").glob("*.json"):
        lines = log.read_text().splitlines()
        (added,) = (line for line in lines if line.startswith('{"add"'))
        log.write_text("\n".join([*lines, added]))
    write_deltalake(folder, ROWS.select(["data"]), mode="append", schema_mode="merge")
    assert layout_of(folder).bounds == {"offset", "own"}


def test_a_line_of_an_output_has_its_time() -> None:
    found = seconds_until("10.", iter(["9. nine", "10. ten", "10. again"]), 0.0)
    assert found is not None
    assert found > 0
    assert seconds_until("11.", iter(["9. nine", "10. ten"]), 0.0) is None
