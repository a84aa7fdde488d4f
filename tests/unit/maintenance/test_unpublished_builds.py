"""Staged files of a version that has never published anything are deleted once no run needs them, and no sooner."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from anabranch.change.estimates import Outcome, record_outcome
from anabranch.compute.batch.manifest import manifests, read_manifest
from anabranch.compute.batch.publish import publish
from anabranch.operate.maintenance import _unpublished_builds, _vacuum, maintain
from anabranch.operate.maintenance._report import ActionKind, Policy
from support.maintained_platform import busy, files, later, on_disk, speed_of
from support.small_platform import DAYS, Clinic

pytestmark = pytest.mark.unit
SIX, EIGHT, MONTH = 6.9, 8, 31


@pytest.fixture
def clinic(tmp_path: Path) -> Clinic:
    return busy(tmp_path / "home")


@pytest.fixture
def ancient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file on disk was written long ago."""

    def old(base: Path) -> list[tuple[Path, int, float]]:
        return [(Path(path), Path(path).stat().st_size, 0.0) for path in on_disk(str(base))]

    for module in (_vacuum, _unpublished_builds):
        monkeypatch.setattr(module, "files_with_times", old)


def staged(clinic: Clinic) -> set[str]:
    return on_disk(clinic.handle().batch_table)


def orphan_of(clinic: Clinic) -> Path:
    """A file whose rebuild was killed before it wrote its manifest."""
    path = Path(clinic.handle().batch_table) / "builds" / "died-1" / "partition_date=2013-01-01" / "p.parquet"
    path.parent.mkdir(parents=True)
    pq.write_table(pq.read_table(files(speed_of(clinic))[0]), path)
    path.with_name(f".{path.name}.crc").touch()
    return path


def test_files_of_a_killed_rebuild_go_after_a_week(clinic: Clinic) -> None:
    orphan = orphan_of(clinic)
    maintain(clinic.settings, later(SIX))
    assert orphan.exists()
    assert "never published" in str(maintain(clinic.settings, later(EIGHT), plan=True))
    assert orphan.exists()
    done = maintain(clinic.settings, later(EIGHT))
    assert not orphan.parents[1].exists()
    assert done.freed() > 0
    assert not done.failed


def test_a_build_that_may_be_published_keeps_its_files(clinic: Clinic) -> None:
    clinic.build("waits", DAYS[:2])
    maintain(clinic.settings, later(EIGHT))
    assert publish(clinic.handle(), read_manifest(clinic.handle(), "waits"), DAYS[:2]) is not None
    before = staged(clinic)
    maintain(clinic.settings, later(MONTH))
    assert staged(clinic) == before


@pytest.mark.usefixtures("ancient")
def test_an_expired_build_keeps_its_files_for_an_hour_and_then_they_go_before_its_manifest(clinic: Clinic) -> None:
    clinic.build("waits", DAYS[:2])
    before = staged(clinic)
    for minutes in (0, 30):
        maintain(clinic.settings, Policy(keep_days=0, now=time.time() + 60 * minutes + 1))
        assert manifests(clinic.handle()) == []
        assert staged(clinic) == before, "somebody may just be publishing them"
    maintain(clinic.settings, Policy(keep_days=0, now=time.time() + 7_200))
    assert staged(clinic) == set()


def test_a_manifest_that_can_not_be_read_holds_all_files_of_its_version(clinic: Clinic) -> None:
    orphan = orphan_of(clinic)
    clinic.build("waits", DAYS[:2])
    before = staged(clinic)
    manifests(clinic.handle())[0].write_text("{")
    done = maintain(clinic.settings, later(EIGHT))
    assert staged(clinic) == before
    assert orphan.exists()
    assert any(a.act is ActionKind.HELD_BACK and "waits.json" in a.said for a in done.actions)


@pytest.mark.usefixtures("ancient")
@pytest.mark.parametrize("torn", ["{", "", '{"kind": "verdict"}', '{"format": 9}'])
def test_a_manifest_that_can_not_be_read_holds_all_files_of_a_published_table(clinic: Clinic, torn: str) -> None:
    """It may be mended, as here, and is then published."""
    orphan = orphan_of(clinic)
    clinic.reprocess("shown", DAYS[2:3])
    clinic.build("waits", DAYS[:2])
    before = staged(clinic)
    (path,) = [path for path in manifests(clinic.handle()) if path.stem == "waits"]
    whole = path.read_text()
    path.write_text(torn)
    for plan in (True, False):
        done = maintain(clinic.settings, later(EIGHT), plan=plan)
        assert any(a.act is ActionKind.HELD_BACK and "waits.json" in a.said for a in done.actions)
    assert staged(clinic) == before
    path.write_text(whole)
    assert publish(clinic.handle(), read_manifest(clinic.handle(), "waits"), DAYS[:2]) is not None
    maintain(clinic.settings, later(EIGHT))
    assert not orphan.exists()


def test_a_manifest_that_can_not_be_read_now_holds_all_files(clinic: Clinic) -> None:
    """Its name leads nowhere: no rights would be the same."""
    clinic.build("waits", DAYS[:2])
    before = staged(clinic)
    (path,) = manifests(clinic.handle())
    path.unlink()
    path.symlink_to(path)
    for published in (False, True):
        if published:
            clinic.reprocess("shown", DAYS[2:3])
            before |= staged(clinic)
        done = maintain(clinic.settings, later(EIGHT))
        assert staged(clinic) == before
        where = f"{clinic.handle()}, batch half" if published else str(clinic.handle())
        assert any(a.act is ActionKind.FAILED and a.where == where and "waits.json" in a.said for a in done.actions)


def test_a_version_whose_table_was_lost_is_not_taken_for_one_that_was_never_published(clinic: Clinic) -> None:
    """Its log may come back from a backup, and would name these files."""
    orphan = orphan_of(clinic)
    cost = Outcome("shown", 1, 1, 1.0, 1, datetime.now(UTC))
    record_outcome(clinic.handle(), cost)
    done = maintain(clinic.settings, later(EIGHT))
    assert orphan.exists()
    assert any(a.act is ActionKind.HELD_BACK and "log is missing" in a.said for a in done.actions)


@pytest.mark.parametrize("left", ["_delta_log", "_older_commits"])
def test_a_folder_with_a_log_is_left_to_the_vacuum(clinic: Clinic, left: str) -> None:
    orphan = orphan_of(clinic)
    (Path(clinic.handle().batch_table) / left).mkdir()
    maintain(clinic.settings, later(EIGHT))
    assert orphan.exists()
