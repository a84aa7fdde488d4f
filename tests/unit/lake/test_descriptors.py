"""A process that commits and reads for weeks has no more files open than after its first hour."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from anabranch.compute.speed.table import SpeedTable
from anabranch.core.settings import Settings
from anabranch.lake.files import stage_arrow
from anabranch.serve import Reading, read
from anabranch.views.model.definition import PARTITION_DATE
from support.small_platform import DAYS, NAME, SPEED, V1, Clinic, departed, rows_on

pytestmark = pytest.mark.unit
COMMITS = 1_000
FEW = 4
WHERE = "flights >= 0"
ENGINES: list[tuple[str | None, Callable[[Reading], Any]]] = [
    (None, lambda reading: reading.to_arrow()),
    (None, lambda reading: reading.to_polars()),
    (WHERE, lambda reading: reading.to_pandas()),
    (WHERE, lambda reading: reading.to_duckdb().to_arrow_table()),
    (WHERE, lambda reading: reading.to_arrow()),
    (WHERE, lambda reading: reading.to_polars(lazy=True).collect()),
    (None, lambda reading: reading.to_pandas()),
    (None, lambda reading: reading.to_duckdb().to_arrow_table()),
]
"""With and without a predicate: DuckDB scans for Arrow and pandas only if there is one."""


@pytest.mark.parametrize("reads_every", [pytest.param(1, marks=pytest.mark.sweep), 5])
def test_open_files_are_level_after_a_thousand_commits_and_reads(tmp_path: Path, reads_every: int) -> None:
    """As a stream on a quiet topic makes them: a day each. Spark's files are those of the JVM:
    ``tests/spark/serve/test_spark_descriptors.py``."""
    clinic = Clinic(Settings(home=tmp_path / "home"))
    clinic.land([departed(1)])
    clinic.speed()
    table = SpeedTable(clinic.handle().speed_table, V1, SPEED, unverified=True)
    rows, process, counts = rows_on(DAYS[:1], 1), psutil.Process(), dict[int, int]()
    for number in range(1, COMMITS + 1):
        files = stage_arrow(rows, table.uri, f"speed-{number}", PARTITION_DATE)
        note = table.note(f"speed-v1:{number}", clinic.cut, watermark_ms=None, rows=rows.num_rows)
        table.replace(files, DAYS[:1], note)
        if number % reads_every == 0:
            where, to_engine = ENGINES[number // reads_every % len(ENGINES)]
            assert len(to_engine(read(NAME, settings=clinic.settings, where=where))) == 2 * len(DAYS)
        if number in (COMMITS // 2, COMMITS):
            counts[number] = process.num_fds()
    assert abs(counts[COMMITS] - counts[COMMITS // 2]) <= FEW, counts
