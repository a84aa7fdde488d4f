"""What is in a backup, that it is of one cut, that files are copied once, and what is refused."""

from __future__ import annotations

import errno
import gzip
import json
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest
from anabranch.apps.cli.main import app
from anabranch.certify.certificates import certificate_rows
from anabranch.core.atomic_files import locked
from anabranch.core.errors import AnabranchError, BadInput, BrokenState, Conflict
from anabranch.core.formats import package_version
from anabranch.core.settings import Settings
from anabranch.ingest.landing.state import open_landing, read_state
from anabranch.lake import latest_commit
from anabranch.lake.cut import Cut
from anabranch.lake.layout import TableRef, landing_index, landing_table, restoring
from anabranch.lake.log.archived_commits import ARCHIVE, LOG, restore_commits, versions
from anabranch.operate.backup import (
    FORMAT,
    _chosen_files,
    _hashed_files,
    _restore,
    _verify,
    create_backup,
    list_backups,
    restore_backup,
    verify_backups,
)
from anabranch.operate.backup._backup_folder import BackupFolder
from anabranch.operate.backup._hashed_files import chunks_of, hash_of
from anabranch.operate.backup._manifest import Manifest, SavedFile
from anabranch.operate.doctor import Context, examine
from anabranch.operate.maintenance import maintain
from anabranch.operate.runtime._preflight import check_all
from anabranch.views import Registry
from deltalake import DeltaTable
from support.backed_up_home import furnished, kept, needed, objects
from support.landed_sample import DECLARED, FLIGHTS
from support.maintained_platform import files, later, rows, shorten, tree
from support.small_platform import DAYS, NAME, V1, Clinic, departed
from typer.testing import CliRunner

pytestmark = pytest.mark.unit


@pytest.fixture
def clinic(tmp_path: Path) -> Clinic:
    return furnished(tmp_path / "home")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "backups"


@pytest.fixture
def other(tmp_path: Path) -> Settings:
    """An empty home."""
    return Settings(home=tmp_path / "other")


def code_of(act: Callable[[], object], kind: type[AnabranchError]) -> str:
    with pytest.raises(kind) as refused:
        act()
    assert refused.value.state
    assert refused.value.next_step
    return refused.value.code


def test_a_restored_home_has_all_that_cant_be_made_again_and_nothing_else(
    clinic: Clinic, folder: Path, other: Settings
) -> None:
    before = tree(clinic.settings.home)
    made = create_backup(clinic.settings, folder)
    assert tree(clinic.settings.home) == before, "a backup writes nothing into the home"
    assert made.manifest.covers == (str(clinic.cut),)
    done = restore_backup(other, folder)
    assert kept(other) == kept(clinic.settings)
    assert sorted(path.name for path in other.home.iterdir()) == ["control", "lake", "locks", "tmp"]
    assert sorted(path.name for path in other.lake.iterdir()) == ["certificates", "landing", "routes"]
    assert done.next_steps == (
        "anabranch up",
        "anabranch landing verify",
        f"anabranch reprocess {NAME} --version 1 --from {DAYS[0]} --to {DAYS[1]}",
    )
    # The doctor misses the halves of the view only; two hours from now, as it does not judge what is young.
    found = examine(Context(other, DECLARED, Registry((V1,), DECLARED)), pause=0).findings
    assert {finding.code for finding in found} == {"CERTIFIED_NOTHING", "ROUTE_NOWHERE"}


def test_landing_goes_on_in_a_restored_home_at_the_same_offsets_and_knows_the_ids(
    clinic: Clinic, folder: Path, other: Settings
) -> None:
    create_backup(clinic.settings, folder)
    expected = read_state(clinic.table, FLIGHTS)
    restore_backup(other, folder)
    table = open_landing(other, FLIGHTS)
    assert table.version() == clinic.table.version(), "nothing has to be registered or changed first"
    assert read_state(table, FLIGHTS) == expected
    again = Clinic(other)
    again.decisions = clinic.decisions
    again.index()
    clinic.index()
    assert sorted(p.stat().st_size for p in landing_index(other, FLIGHTS.name).glob("*.npy")) == sorted(
        p.stat().st_size for p in landing_index(clinic.settings, FLIGHTS.name).glob("*.npy")
    )
    again.land([departed(300)])
    assert again.epoch == clinic.epoch + 1


def test_only_new_files_are_copied(clinic: Clinic, folder: Path) -> None:
    first = create_backup(clinic.settings, folder)
    assert first.copied == len(objects(folder)) > 10
    before = {path: path.stat().st_mtime_ns for path in (folder / "objects").rglob("*") if path.is_file()}
    assert create_backup(clinic.settings, folder).copied == 0
    clinic.land([departed(200), departed(201)])
    clinic.certify("later", DAYS[:1])
    third = create_backup(clinic.settings, folder)
    assert third.copied == 4, "two commits, and a data file of each"
    assert third.copied_bytes < first.copied_bytes
    assert before == {path: path.stat().st_mtime_ns for path in before}
    assert [each.name for each in list_backups(folder)] == BackupFolder(folder).names()
    assert objects(folder) == needed(folder)
    assert verify_backups(folder).files == len(objects(folder))


def test_commits_that_landing_has_archived_are_the_same_files(clinic: Clinic, folder: Path, other: Settings) -> None:
    clinic.land([departed(150)])
    create_backup(clinic.settings, folder)
    shorten(clinic.uri)
    assert versions(Path(clinic.uri))[0] == 0
    assert create_backup(clinic.settings, folder).copied == 2, "the two checkpoints"
    restore_backup(other, folder)
    uri = Path(landing_table(other, FLIGHTS.name))
    assert len(list((uri / LOG).glob("*.json"))) == 2
    assert len(list((uri / ARCHIVE).glob("*.json"))) == clinic.table.version() - 1
    assert kept(other) == kept(clinic.settings)


def test_after_maintenance_a_month_later_too(clinic: Clinic, folder: Path, other: Settings) -> None:
    create_backup(clinic.settings, folder)
    for days in (0, 40):
        assert not maintain(clinic.settings, later(days)).failed
    create_backup(clinic.settings, folder)
    restore_backup(other, folder)
    assert kept(other) == kept(clinic.settings)
    assert not maintain(other, later(80)).failed
    assert rows(landing_table(other, FLIGHTS.name)) == rows(clinic.uri)


def test_whatever_is_committed_between_two_tables_a_backup_names_nothing_that_is_not_in_it(
    clinic: Clinic, folder: Path, other: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before each table is chosen an epoch lands, and a certificate names it."""
    chosen, number = _chosen_files._table, iter(range(100))

    def between(settings: Settings, place: TableRef) -> object:
        turn = next(number)
        clinic.land([departed(500 + turn)])
        clinic.certify(f"run-{turn}", DAYS[:1])
        return chosen(settings, place)

    monkeypatch.setattr(_chosen_files, "_table", between)
    made = create_backup(clinic.settings, folder)
    monkeypatch.undo()
    restore_backup(other, folder)
    landed = latest_commit(landing_table(other, FLIGHTS.name))
    assert landed is not None
    cuts = [Cut.from_json(json.loads(row["cut"])) for row in certificate_rows(other)]
    assert next(number) == len(made.manifest.tables) == 3
    assert len(cuts) > 2
    assert all(landed.note.cut.covers(cut) for cut in cuts)


def test_a_contract_that_is_registered_meanwhile_is_in_it(
    clinic: Clinic, folder: Path, other: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An event of it may land in the last moment before landing is chosen."""
    chosen = _chosen_files._table
    record = clinic.settings.home / "control" / "contracts" / "seeded.v1.json"

    def between(settings: Settings, place: TableRef) -> object:
        if place.kind == "landing":
            record.write_text("{}")
        return chosen(settings, place)

    monkeypatch.setattr(_chosen_files, "_table", between)
    create_backup(clinic.settings, folder)
    restore_backup(other, folder)
    assert (other.home / "control" / "contracts" / record.name).exists()


def test_while_landing_appends_and_archives_each_backup_is_of_one_version(
    clinic: Clinic, folder: Path, tmp_path: Path
) -> None:
    stop = threading.Event()

    def land() -> None:
        number = 1_000
        while not stop.is_set():
            clinic.land([departed(number)])
            number += 1
            if number % 5 == 0:
                shorten(clinic.uri)

    thread = threading.Thread(target=land)
    thread.start()
    try:
        made = [create_backup(clinic.settings, folder).manifest for _ in range(6)]
    finally:
        stop.set()
        thread.join()
    verify_backups(folder)
    assert made[0].landing[0].version < made[-1].landing[0].version
    for manifest in (made[0], made[-1]):
        there = Settings(home=tmp_path / manifest.name)
        restore_backup(there, folder, manifest.name)
        uri, version = landing_table(there, FLIGHTS.name), manifest.landing[0].version
        assert DeltaTable(uri).version() == version
        restore_commits(Path(clinic.uri), version)
        uris = DeltaTable(clinic.uri, version=version).file_uris()
        assert rows(uri) == rows(clinic.uri, [each.removeprefix("file://") for each in uris])
        assert versions(Path(uri)) == list(range(version + 1))


def test_old_backups_go_with_what_only_they_name(clinic: Clinic, folder: Path, other: Settings) -> None:
    names = []
    for number in range(4):
        clinic.land([departed(600 + number)])
        maintain(clinic.settings)
        names.append(create_backup(clinic.settings, folder, keep=2).manifest.name)
        assert BackupFolder(folder).names() == names[-2:]
        assert objects(folder) == needed(folder)
    verify_backups(folder)
    restore_backup(other, folder, names[2])
    assert code_of(lambda: restore_backup(other, folder, names[0]), BadInput) == "BACKUP_MISSING"


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


@pytest.mark.parametrize(
    "spoil", [flip, Path.unlink, lambda path: path.write_bytes(b"")], ids=["flip", "gone", "empty"]
)
@pytest.mark.parametrize("ending", [".parquet", ".json"])
def test_a_damaged_file_is_found_and_copied_again(
    clinic: Clinic, folder: Path, other: Settings, spoil: Callable[[Path], object], ending: str
) -> None:
    older = create_backup(clinic.settings, folder).manifest
    clinic.land([departed(700)])
    newer = create_backup(clinic.settings, folder).manifest
    new = {file.sha256 for file in newer.files if file.path.endswith(ending)} - {file.sha256 for file in older.files}
    path = BackupFolder(folder).content_file(min(new))
    spoil(path)
    with pytest.raises(BrokenState) as found:
        verify_backups(folder)
    assert found.value.code == "BACKUP_DAMAGED"
    assert found.value.fields == {"damaged": [str(path)], "backups": [newer.name], "whole": [older.name]}
    assert verify_backups(folder, older.name).files
    assert code_of(lambda: restore_backup(other, folder), BrokenState) == "BACKUP_DAMAGED"
    assert sorted(each.name for each in other.home.iterdir()) == ["locks"]
    path.unlink(missing_ok=True)  # what the error says
    create_backup(clinic.settings, folder)
    verify_backups(folder)
    restore_backup(other, folder, newer.name)
    assert kept(other) == kept(clinic.settings)


def fails_to_read(monkeypatch: pytest.MonkeyPatch, module: object, unreadable: Path) -> None:
    def chunks(path: Path) -> Iterator[bytes]:
        if path == unreadable:
            raise OSError(errno.EIO, "Input/output error", str(path))
        return chunks_of(path)

    monkeypatch.setattr(module, "chunks_of", chunks)


def test_a_file_that_the_disk_cannot_read_is_named_as_damaged(
    clinic: Clinic, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One bad sector is no reason to say nothing of the other files."""
    made = create_backup(clinic.settings, folder).manifest
    path = BackupFolder(folder).content_file(made.files[0].sha256)
    fails_to_read(monkeypatch, _hashed_files, path)
    with pytest.raises(BrokenState) as found:
        verify_backups(folder)
    assert found.value.code == "BACKUP_DAMAGED"
    assert found.value.fields["damaged"] == [str(path)]


def test_a_restore_names_the_disk_that_it_cannot_read(
    clinic: Clinic, folder: Path, other: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = create_backup(clinic.settings, folder).manifest
    with monkeypatch.context() as broken:
        fails_to_read(broken, _restore, BackupFolder(folder).content_file(made.files[-1].sha256))
        with pytest.raises(BrokenState) as found:
            restore_backup(other, folder)
    assert (found.value.code, found.value.fields["folder"]) == ("BACKUP_UNWRITABLE", str(folder))
    assert found.value.state.startswith("nothing of it is visible in the home")
    restore_backup(other, folder)
    assert kept(other) == kept(clinic.settings)


def test_a_restore_that_fails_while_it_places_files_does_not_say_that_nothing_is_visible(
    clinic: Clinic, folder: Path, other: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_backup(clinic.settings, folder)
    real, moved = Path.rename, list[Path]()

    def fails(path: Path, target: Path) -> Path:
        if moved and path.parent == restoring(other):
            raise OSError(errno.EIO, "Input/output error")
        moved.extend([path] if path.parent == restoring(other) else [])
        return real(path, target)

    with monkeypatch.context() as broken:
        broken.setattr(Path, "rename", fails)
        with pytest.raises(BrokenState) as found:
            restore_backup(other, folder)
    assert found.value.fields["folder"] == str(other.home)
    assert "every hash was right, and some of its folders are in place" in found.value.state
    restore_backup(other, folder)
    assert kept(other) == kept(clinic.settings)


def test_a_damaged_manifest_is_named_and_no_file_goes(clinic: Clinic, folder: Path, other: Settings) -> None:
    first = create_backup(clinic.settings, folder).manifest
    clinic.land([departed(800)])
    second = create_backup(clinic.settings, folder).manifest
    flip(folder / "backups" / f"{first.name}.jsonl.gz")
    assert code_of(lambda: verify_backups(folder), BrokenState) == "BACKUP_DAMAGED"
    assert code_of(lambda: restore_backup(other, folder, first.name), BrokenState) == "BACKUP_DAMAGED"
    before = objects(folder)
    third = create_backup(clinic.settings, folder, keep=1)
    assert third.removed.backups == (second.name,)
    assert first.name in third.removed.held
    assert before <= objects(folder)
    (folder / "backups" / f"{first.name}.jsonl.gz").unlink()
    create_backup(clinic.settings, folder, keep=1)
    assert objects(folder) == needed(folder)


def test_backups_that_can_not_be_listed_are_not_taken_for_none(clinic: Clinic, folder: Path) -> None:
    """Every file would belong to no backup."""
    create_backup(clinic.settings, folder)
    before, backups = objects(folder), folder / "backups"
    backups.rename(folder / "aside")
    backups.symlink_to(backups)
    with pytest.raises(AnabranchError, match="symbolic"):
        BackupFolder(folder).retain(1)
    assert objects(folder) == before


@pytest.mark.parametrize("act", ["verify all", "verify it", "restore it"])
def test_a_backup_that_is_removed_meanwhile_is_not_damaged(
    clinic: Clinic, folder: Path, other: Settings, monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    """Reading takes hours, and a nightly ``create --keep`` runs beside it."""
    first = create_backup(clinic.settings, folder).manifest.name
    clinic.land([departed(800)])
    maintain(clinic.settings, later(40))
    begun: list[Path] = []

    def beside(path: Path) -> str:
        begun.append(path)
        if len(begun) == 1:
            create_backup(clinic.settings, folder, keep=1)
        return hash_of(path)

    def chunks_beside(path: Path) -> Iterator[bytes]:
        beside(path)
        return chunks_of(path)

    monkeypatch.setattr(_verify, "hash_of", beside)
    monkeypatch.setattr(_restore, "chunks_of", chunks_beside)
    if act == "verify all":
        assert first not in verify_backups(folder).backups
    elif act == "verify it":
        assert code_of(lambda: verify_backups(folder, first), BadInput) == "BACKUP_MISSING"
    else:
        assert code_of(lambda: restore_backup(other, folder, first), BadInput) == "BACKUP_MISSING"
    assert begun


@pytest.mark.parametrize("path", ["../outside", "control/../../outside", "/etc/outside", "secrets/password", "lake"])
def test_no_manifest_leads_out_of_the_home(path: str) -> None:
    made = Manifest(1, datetime(2026, 1, 1, tzinfo=UTC), (), {}, (SavedFile(path, 1, 1, "0" * 64),))
    with pytest.raises(ValueError, match="no file of a home"):
        Manifest.from_bytes(made.to_bytes())


def test_a_home_that_is_not_empty_is_refused(clinic: Clinic, folder: Path, other: Settings) -> None:
    create_backup(clinic.settings, folder)
    before = kept(clinic.settings)
    assert code_of(lambda: restore_backup(clinic.settings, folder), Conflict) == "RESTORE_NOT_EMPTY"
    assert kept(clinic.settings) == before
    (other.home / "checkpoints").mkdir(parents=True)
    assert code_of(lambda: restore_backup(other, folder), Conflict) == "RESTORE_NOT_EMPTY"
    (other.home / "checkpoints").rename(other.home / "kafka")
    restore_backup(other, folder)


def test_nothing_starts_in_a_home_whose_restore_has_not_ended(other: Settings) -> None:
    restoring(other).mkdir(parents=True)
    assert code_of(lambda: check_all(other, ()), BrokenState) == "RESTORE_UNFINISHED"


def test_an_empty_platform_does_not_push_out_the_backups_of_a_lost_one(
    clinic: Clinic, folder: Path, tmp_path: Path
) -> None:
    create_backup(clinic.settings, folder)
    fresh = Clinic(Settings(home=tmp_path / "fresh"))
    assert code_of(lambda: create_backup(fresh.settings, folder, keep=1), Conflict) == "BACKUP_OTHER_HOME"
    assert len(list_backups(folder)) == 1


def test_a_restored_home_goes_on_with_the_same_backups(clinic: Clinic, folder: Path, other: Settings) -> None:
    """And what it lands under numbers that the lost one had used, too, is not taken for the same."""
    create_backup(clinic.settings, folder)
    restore_backup(other, folder)
    clinic.land([departed(900)])
    create_backup(clinic.settings, folder)
    again = Clinic(other)
    again.decisions = clinic.decisions
    again.land([departed(901)])
    assert create_backup(other, folder).copied == 2
    third = Settings(home=other.home.with_name("third"))
    restore_backup(third, folder)
    assert kept(third) == kept(other) != kept(clinic.settings)


def test_what_is_refused(clinic: Clinic, folder: Path, other: Settings, tmp_path: Path) -> None:
    home = clinic.settings.home
    assert code_of(lambda: create_backup(other, folder), BadInput) == "BACKUP_EMPTY"
    assert not folder.exists()
    for inside in (home / "backups", home, home.parent):
        assert code_of(partial(create_backup, clinic.settings, inside), BadInput) == "BACKUP_INSIDE"
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "photo").touch()
    assert code_of(lambda: create_backup(clinic.settings, tmp_path / "full"), BadInput) == "BACKUP_FOREIGN"
    for act in (verify_backups, list_backups, partial(restore_backup, other)):
        assert code_of(partial(act, folder), BadInput) == "BACKUP_MISSING"
    assert not other.home.exists()
    create_backup(clinic.settings, folder)
    with locked(folder / "lock"):
        assert code_of(lambda: create_backup(clinic.settings, folder), Conflict) == "BACKUP_RUNNING"
    with locked(other.locks / "restore"):
        assert code_of(lambda: restore_backup(other, folder), Conflict) == "RESTORE_RUNNING"
    (folder / "anabranch-backup.json").write_text(json.dumps({"format": FORMAT + 1}))
    assert code_of(lambda: create_backup(clinic.settings, folder), BadInput) == "BACKUP_FORMAT"
    assert code_of(lambda: restore_backup(other, folder), BadInput) == "BACKUP_FORMAT"


def test_a_manifest_of_a_newer_format_is_refused(clinic: Clinic, folder: Path, other: Settings) -> None:
    name = create_backup(clinic.settings, folder).manifest.name
    path = folder / "backups" / f"{name}.jsonl.gz"
    text = gzip.decompress(path.read_bytes()).replace(b'"format": 1', b'"format": 2', 1)
    path.write_bytes(gzip.compress(text))
    for act in (lambda: create_backup(clinic.settings, folder), lambda: restore_backup(other, folder)):
        assert code_of(act, BadInput) == "BACKUP_FORMAT"
    with pytest.raises(BadInput, match=f"install anabranch {package_version()}, or"):
        restore_backup(other, folder)


def test_a_data_file_that_is_gone_stops_a_backup(clinic: Clinic, folder: Path) -> None:
    create_backup(clinic.settings, folder)
    Path(files(clinic.uri)[0]).unlink()
    assert code_of(lambda: create_backup(clinic.settings, folder), BrokenState) == "FILES_MISSING"
    assert len(list_backups(folder)) == 1


def test_the_commands(clinic: Clinic, folder: Path, other: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(home: Path, *arguments: str) -> str:
        monkeypatch.setenv("ANABRANCH_HOME", str(home))
        found = CliRunner().invoke(app, [*arguments], catch_exceptions=False)
        assert found.exit_code == 0, found.output
        return found.stdout

    made = run(clinic.settings.home, "backup", "create", str(folder), "--keep", "3")
    name = BackupFolder(folder).names()[0]
    assert made.splitlines()[0] == f"backup {name}: {clinic.cut}"
    assert run(other.home, "backup", "list", str(folder)).startswith(f"{name}  {clinic.cut}  ")
    assert json.loads(run(other.home, "backup", "list", str(folder), "--json"))[0]["name"] == name
    assert "every hash is right" in run(other.home, "backup", "verify", str(folder), "--backup", name)
    restored = run(other.home, "restore", str(folder))
    assert f"anabranch reprocess {NAME} --version 1 --from {DAYS[0]} --to {DAYS[1]}" in restored
    assert kept(other) == kept(clinic.settings)
