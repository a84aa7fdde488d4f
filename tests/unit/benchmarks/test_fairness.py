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


def test_bounds_of_more_columns_are_no_same_layout(tmp_path: Path) -> None:
    ours = made(tmp_path / "ours", "offset")
    with pytest.raises(DifferentLayout, match="own"):
        check_layout(ours, made(tmp_path / "theirs", "offset,own"))
    assert "bounds of 1 and 1 columns" in check_layout(ours, made(tmp_path / "equal", "own"))


def test_a_line_of_an_output_has_its_time() -> None:
    found = seconds_until("10.", iter(["9. nine", "10. ten", "10. again"]), 0.0)
    assert found is not None
    assert found > 0
    assert seconds_until("11.", iter(["9. nine", "10. ten"]), 0.0) is None
