"""SIGKILL before each step of a backup and of a restore: what was complete stays so, and the next call goes on."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from anabranch.core.errors import BrokenState
from anabranch.core.settings import Settings
from anabranch.lake.layout import landing_table, restoring
from anabranch.operate.backup import _create, create_backup, list_backups, restore_backup, verify_backups
from anabranch.operate.backup._backup_folder import BackupFolder
from anabranch.operate.runtime._preflight import check_restored
from deltalake import DeltaTable
from support.backed_up_home import furnished, kept, needed, objects
from support.killed_steps import killed_before, steps_of
from support.landed_sample import FLIGHTS
from support.small_platform import Clinic, departed

pytestmark = pytest.mark.unit


@pytest.fixture
def clinic(tmp_path: Path) -> Clinic:
    return furnished(tmp_path / "home", 1)


def test_a_killed_backup_leaves_those_before_it_whole_and_the_next_one_goes_on(clinic: Clinic, tmp_path: Path) -> None:
    """With a retention of one: the older backup goes only when the new one is complete."""
    first, folder, settings = tmp_path / "first", tmp_path / "backups", clinic.settings
    older = create_backup(settings, first).manifest
    clinic.land([departed(200)])
    steps, complete = 0, 0
    while True:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(first, folder)
        if not killed_before(steps + 1, folder, create_backup, settings, folder, 1):
            break
        steps += 1
        verify_backups(folder)
        (*before, newest) = list_backups(folder)
        assert newest == older or newest.number == 2, "a complete one, or the one before"
        assert newest != older or not before
        complete += newest != older
        if steps % 5 == 0:
            there = Settings(home=tmp_path / "there")
            restore_backup(there, folder)
            assert DeltaTable(landing_table(there, FLIGHTS.name)).version() == newest.landing[0].version
            shutil.rmtree(there.home)
        copied = create_backup(settings, folder, 1).copied
        assert copied <= 2, "the new commit and its data file; what was copied is used"
        verify_backups(folder)
        assert len(list_backups(folder)) == 1
        assert objects(folder) == needed(folder)
    assert steps > 10
    assert 0 < complete < steps


def _remembering(settings: Settings, folder: Path) -> None:
    """A backup that remembers what it has copied after every ten files."""
    _create._FILES_AT_ONCE = 10
    create_backup(settings, folder)


def test_what_a_killed_backup_has_copied_is_not_copied_again(clinic: Clinic, tmp_path: Path) -> None:
    folder = tmp_path / "backups"
    assert killed_before(50, folder, _remembering, clinic.settings, folder)
    with (folder / "copied").open("a") as file:
        file.write('\n["torn')
    known = {saved.sha256 for _, saved in BackupFolder(folder).remembered()}
    assert len(known) >= 10
    before = {sha256: BackupFolder(folder).content_file(sha256).stat().st_ino for sha256 in known}
    create_backup(clinic.settings, folder)
    assert {sha256: BackupFolder(folder).content_file(sha256).stat().st_ino for sha256 in known} == before
    assert not (folder / "copied").exists()
    verify_backups(folder)
    assert objects(folder) == needed(folder)


def test_a_killed_first_backup_is_made_again(clinic: Clinic, tmp_path: Path) -> None:
    folder, step = tmp_path / "backups", 1
    while step < 30 and killed_before(step, folder, create_backup, clinic.settings, folder):
        create_backup(clinic.settings, folder)
        verify_backups(folder)
        shutil.rmtree(folder)
        step += 5
    assert step >= 30


def test_a_killed_restore_starts_nothing_and_goes_on(clinic: Clinic, tmp_path: Path) -> None:
    folder, there = tmp_path / "backups", Settings(home=tmp_path / "there")
    create_backup(clinic.settings, folder)
    expected = kept(clinic.settings)
    total = steps_of(there.home, restore_backup, there, folder)
    assert total > 50
    for step in [*range(1, total, total // 6), *range(total - 9, total + 1)]:
        shutil.rmtree(there.home, ignore_errors=True)
        assert killed_before(step, there.home, restore_backup, there, folder)
        if restoring(there).exists():
            with pytest.raises(BrokenState):
                check_restored(there)
            restore_backup(there, folder)
        elif not (there.home / "lake").exists():
            restore_backup(there, folder)
        check_restored(there)
        assert kept(there) == expected
