"""Maintenance of tables in a store without renames, links and folders."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from anabranch.core.storage import storage_of
from anabranch.lake import open_table
from anabranch.lake.layout import landing_table
from anabranch.operate.maintenance import maintain
from support.landed_sample import FLIGHTS
from support.maintained_platform import busy, later, speed_of
from support.object_store import object_store

pytestmark = pytest.mark.unit


def rows_and_files(uri: str) -> tuple[list[str], int]:
    table = open_table(uri)
    assert table is not None
    return sorted(map(repr, table.to_pyarrow_table().to_pylist())), len(table.file_uris())


def data_files(uri: str) -> int:
    found = storage_of(Path(uri)).entries(Path(uri), skip=("_delta_log",))
    return sum(entry.path.suffix == ".parquet" for entry in found)


def test_small_files_are_merged_and_old_ones_deleted(tmp_path: Path) -> None:
    with object_store(tmp_path):
        clinic = busy(tmp_path, 3)
        uris = (speed_of(clinic), landing_table(clinic.settings, FLIGHTS.name))
        before = [rows_and_files(uri) for uri in uris]
        for days in (0, 40):
            maintain(clinic.settings, replace(later(days), few=2))
            after = [rows_and_files(uri) for uri in uris]
            assert [rows for rows, _ in after] == [rows for rows, _ in before]
        assert [files for _, files in before] > [files for _, files in after] == [2, 2]
        assert [data_files(uri) for uri in uris] == [2, 2]
        assert not list(storage_of(tmp_path).entries(tmp_path / "maintenance")), "the record of a compaction is left"
