"""A process that commits and reads for weeks has no more files open than after its first hour."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest
from anabranch.compute.speed.table import SpeedTable
from anabranch.core.settings import Settings
from anabranch.lake.files import stage_arrow
from anabranch.serve import read
from anabranch.views.model.definition import PARTITION_DATE
from support.small_platform import DAYS, NAME, SPEED, V1, Clinic, departed, rows_on

pytestmark = pytest.mark.unit
COMMITS = 1_000
FEW = 4


def test_open_files_are_level_after_a_thousand_commits_and_reads(tmp_path: Path) -> None:
    """As a stream on a quiet topic makes them: a day each; each tenth is read, by the engines in turn."""
    clinic = Clinic(Settings(home=tmp_path / "home"))
    clinic.land([departed(1)])
    clinic.speed()
    table = SpeedTable(clinic.handle().speed_table, V1, SPEED, unverified=True)
    rows, process, counts = rows_on(DAYS[:1], 1), psutil.Process(), dict[int, int]()
    for number in range(1, COMMITS + 1):
        files = stage_arrow(rows, table.uri, f"speed-{number}", PARTITION_DATE)
        note = table.note(f"speed-v1:{number}", clinic.cut, watermark_ms=None, rows=rows.num_rows)
        table.replace(files, DAYS[:1], note)
        if number % 10 == 0:
            reading = read(NAME, settings=clinic.settings)
            found = (reading.to_arrow, reading.to_polars, reading.to_pandas)[number // 10 % 3]()
            assert len(found) == 2 * len(DAYS)
        if number in (COMMITS // 2, COMMITS):
            counts[number] = process.num_fds()
    assert abs(counts[COMMITS] - counts[COMMITS // 2]) <= FEW, counts
