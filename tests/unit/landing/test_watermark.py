"""The watermark at any epoch is read from the epoch's commit, in few reads, and from the rows where that isn't kept."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from anabranch.core.settings import Settings
from anabranch.ingest.landing.table import watermark
from anabranch.ingest.landing.table.watermark import watermark_at
from anabranch.lake.log.archived_commits import commit_file, read_commit
from anabranch.lake.log.delta_tables import delta_table, folder_of
from deltalake import DeltaTable
from support.landed_sample import FLIGHTS
from support.small_platform import Clinic, departed

pytestmark = pytest.mark.unit
EPOCHS = 40


@pytest.fixture(scope="module")
def landed(tmp_path_factory: pytest.TempPathFactory) -> DeltaTable:
    """One event per epoch, a minute after the one before; every fifth epoch is followed by a stranger's commit."""
    clinic = Clinic(Settings(home=tmp_path_factory.mktemp("watermark")))
    for epoch in range(1, EPOCHS + 1):
        clinic.land([departed(epoch)])
        if epoch % 5 == 0:
            delta_table(clinic.uri).alter.set_table_properties({"delta.x": str(epoch)}, raise_if_not_exists=False)
    return delta_table(clinic.uri)


def expected(epoch: int) -> datetime:
    return datetime(2013, 1, 1, tzinfo=UTC) + timedelta(minutes=epoch) - FLIGHTS.allowed_lateness


def refuse(*_: Any) -> Any:
    raise AssertionError("the rows were read")


def test_no_epoch_needs_the_rows(landed: DeltaTable, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = list[int]()

    def counted(folder: Path, version: int) -> str:
        reads.append(version)
        return read_commit(folder, version)

    monkeypatch.setattr(watermark, "landed_rows", refuse)
    monkeypatch.setattr("anabranch.lake.log.commit_log.read_commit", counted)
    for epoch in range(1, EPOCHS + 1):
        reads.clear()
        assert watermark_at(landed, FLIGHTS, epoch) == expected(epoch)
        assert len(reads) <= 20, epoch
    assert watermark_at(landed, FLIGHTS, 0) is None


def test_the_rows_say_it_if_the_commit_is_not_kept(landed: DeltaTable, tmp_path: Path) -> None:
    gone = landed.version() - 6
    kept = [(commit_file(folder_of(landed), version), version) for version in range(gone)]
    for path, version in kept:
        path.rename(tmp_path / f"{version}")
    try:
        for epoch in (1, EPOCHS // 2, EPOCHS - 8, EPOCHS):
            assert watermark_at(landed, FLIGHTS, epoch) == expected(epoch)
    finally:
        for path, version in kept:
            (tmp_path / f"{version}").rename(path)
