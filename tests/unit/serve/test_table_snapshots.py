"""A table that can't be read is an error: it isn't taken for one that isn't there."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import anabranch
import pytest
from anabranch.core.errors import AnabranchError, BadInput, BrokenState
from anabranch.core.settings import Settings
from anabranch.core.storage import DISK
from anabranch.lake import CommitMetadata
from anabranch.lake.cut import Cut
from anabranch.lake.layout import VersionRef
from anabranch.lake.log.commit_errors import unreadable_table
from anabranch.lake.log.delta_tables import delta_table
from anabranch.serve import table_snapshots
from anabranch.serve.half_choice import published_cuts
from anabranch.serve.routes import route_history, set_route
from anabranch.serve.table_snapshots import Snapshot, snapshot, snapshot_at
from deltalake import DeltaTable
from support import small_halves
from support.small_halves import DAYS, VIEW

pytestmark = pytest.mark.unit
NO_HANDLES = OSError(errno.EMFILE, "Too many open files")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    settings = Settings(home=tmp_path)
    small_halves.start_speed(settings, 3)
    for epoch in (4, 5, 6):
        small_halves.merge_speed(settings, epoch, DAYS[:1])
    return settings


@pytest.fixture
def speed(settings: Settings) -> Snapshot:
    found = snapshot(VersionRef(settings, VIEW, 1).speed_table)
    assert found is not None
    return found


def at(speed: Snapshot, version: int) -> Snapshot | None:
    return snapshot_at(speed.uri, speed.table_id, version)


def commit_of(speed: Snapshot, version: int) -> Path:
    return Path(speed.uri) / "_delta_log" / f"{version:020d}.json"


def code_of(error: pytest.ExceptionInfo[AnabranchError]) -> str:
    return error.value.code


def test_what_the_log_does_not_reach_is_not_there(speed: Snapshot) -> None:
    older = at(speed, 3)
    assert older is not None
    assert older.version == 3
    assert (snapshot_at(speed.uri, "another table", 3), at(speed, 99)) == (None, None)
    delta_table(speed.uri).create_checkpoint()
    for version in (0, 1):
        commit_of(speed, version).unlink()
    assert (at(speed, 1), at(speed, 2)) == (None, None)
    newest = at(speed, speed.version)
    assert newest is not None
    assert newest.version == speed.version


def test_what_can_not_be_opened_is_an_error(speed: Snapshot, monkeypatch: pytest.MonkeyPatch) -> None:
    def open_no_file(*_: Any) -> DeltaTable:
        raise NO_HANDLES

    with monkeypatch.context() as exhausted:
        exhausted.setattr(table_snapshots, "delta_table", open_no_file)
        with pytest.raises(BrokenState) as told:
            at(speed, 2)
    assert code_of(told) == "TABLE_UNREADABLE"
    commit_of(speed, 3).write_bytes(commit_of(speed, 3).read_bytes()[:40])
    with pytest.raises(BrokenState, match="is torn") as told:
        at(speed, 4)
    assert code_of(told) == "TABLE_UNREADABLE"
    assert at(speed, 2) is not None


def test_a_disk_that_does_not_answer_is_an_error(speed: Snapshot, monkeypatch: pytest.MonkeyPatch) -> None:
    def stamp(_: Any, path: Path) -> str:
        raise OSError(errno.EIO, "Input/output error", str(path))

    monkeypatch.setattr(type(DISK), "stamp", stamp)
    looks: list[Callable[[], object]] = [lambda: at(speed, 2), lambda: snapshot(speed.uri)]
    for look in looks:
        with pytest.raises(BrokenState, match="Input/output error") as told:
            look()
        assert code_of(told) == "TABLE_UNREADABLE"


def test_an_error_of_a_kept_handle_opens_the_table_again(
    speed: Snapshot, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors: list[Exception] = [NO_HANDLES]
    update = table_snapshots._Handle.update

    def failing(handle: table_snapshots._Handle) -> bool:
        if errors:
            raise errors.pop()
        return update(handle)

    monkeypatch.setattr(table_snapshots._Handle, "update", failing)
    assert snapshot(speed.uri) is not None
    errors += [NO_HANDLES, NO_HANDLES]
    with pytest.raises(BrokenState) as told:
        anabranch.read(VIEW, settings=settings)
    assert code_of(told) == "TABLE_UNREADABLE"


def test_commits_that_can_not_be_read_are_not_called_torn(speed: Snapshot, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever believed that would restore them from a backup."""

    def read_nothing(*_: Any) -> bytes:
        raise NO_HANDLES

    with monkeypatch.context() as exhausted:
        exhausted.setattr(type(DISK), "read", read_nothing)
        error = unreadable_table(speed.uri, NO_HANDLES)
        exhausted.setattr(type(DISK), "names", read_nothing)
        blind = unreadable_table(speed.uri, NO_HANDLES)
    assert [each.fields["torn"] for each in (error, blind)] == [[], []]
    assert "Too many open files" in error.what


def test_a_folder_that_is_no_view_names_no_other_view_unsafe(settings: Settings) -> None:
    for stray in (".Trash", "lost+found"):
        (settings.lake / "views" / stray / "v1").mkdir(parents=True)
    with pytest.raises(BadInput, match="delays v1") as told:
        anabranch.read("departures", settings=settings)
    assert code_of(told) == "VIEW_UNKNOWN"


def test_a_torn_or_missing_file_of_a_routes_history_is_named(settings: Settings) -> None:
    set_route(settings, VIEW, {1: 100}, by="anna", why="first")
    (file,) = (settings.lake / "routes" / VIEW).rglob("*.parquet")
    file.write_bytes(file.read_bytes()[:50])
    for _ in range(2):
        with pytest.raises(BrokenState, match=file.name) as told:
            route_history(settings, VIEW)
        assert code_of(told) == "FILE_UNREADABLE"
        file.unlink(missing_ok=True)


def made_again(settings: Settings, epoch: int, days: Sequence[date]) -> None:
    """The speed table is deleted and created again. Its files get the inodes, sizes and times of the deleted ones: the
    disk uses an inode again at once, and what the new commits lack in length is added as spaces, which JSON allows."""
    log = Path(VersionRef(settings, VIEW, 1).speed_table) / "_delta_log"
    before = {path.name: (path.read_bytes(), path.stat()) for path in log.glob("*.json")}
    kept = {name: log.parent.with_name(name) for name in before}
    for name, path in kept.items():
        os.link(log / name, path)  # keeps the inode
    shutil.rmtree(log.parent)
    small_halves.start_speed(settings, epoch, days)
    for path in log.glob("*.json"):
        content, stat = path.read_bytes(), before[path.name][1]
        assert len(content) <= stat.st_size
        with kept[path.name].open("r+b") as file:
            file.write(content.rstrip().ljust(stat.st_size))
        kept[path.name].replace(path)
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        again = path.stat()
        assert (again.st_ino, again.st_size, again.st_mtime_ns) == (stat.st_ino, stat.st_size, stat.st_mtime_ns)


def test_a_table_made_again_with_the_inodes_sizes_and_times_of_the_deleted_one(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    small_halves.start_speed(settings, 3, DAYS[:3])
    uri = VersionRef(settings, VIEW, 1).speed_table
    old = snapshot(uri)
    assert old is not None
    assert snapshot_at(uri, old.table_id, old.version) == old

    made_again(settings, 4, DAYS[:2])

    new = snapshot(uri)
    assert new is not None
    assert new.table_id == str(delta_table(uri).metadata().id) != old.table_id
    assert set(new.files) == set(DAYS[:2])
    assert snapshot_at(uri, old.table_id, old.version) is None
    small_halves.merge_speed(settings, 5, DAYS[:2])
    newest = snapshot(uri)
    assert newest is not None
    assert (newest.table_id, set(newest.files)) == (new.table_id, set(DAYS[:2]))
    assert anabranch.read(VIEW, settings=settings).to_arrow().num_rows == 2 * small_halves.KEYS


def test_a_table_made_again_while_a_reader_was_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was stopped after it had looked whether the table is the one it knows, and the new one has more commits."""
    settings = Settings(home=tmp_path)
    small_halves.start_speed(settings, 3, DAYS[:3])
    uri = VersionRef(settings, VIEW, 1).speed_table
    old = snapshot(uri)
    assert old is not None
    look = table_snapshots._Handle.is_valid

    def looks_and_stops(handle: table_snapshots._Handle) -> bool:
        found = look(handle)
        shutil.rmtree(uri)
        small_halves.start_speed(settings, 4, DAYS[:2])
        small_halves.merge_speed(settings, 5, DAYS[:1])
        return found

    with monkeypatch.context() as stopped:
        stopped.setattr(table_snapshots._Handle, "is_valid", looks_and_stops)
        new = snapshot(uri)
    assert new is not None
    assert new.table_id == str(delta_table(uri).metadata().id) != old.table_id
    assert set(new.files) == set(DAYS[:2])


def test_what_is_published_is_parsed_once_for_each_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(home=tmp_path)
    small_halves.start_speed(settings, 3)
    parsed = list[int]()

    def counted(note: CommitMetadata) -> dict[date, Cut]:
        parsed.append(1)
        return published_cuts(note)

    monkeypatch.setattr("anabranch.serve.table_snapshots.published_cuts", counted)
    for number, days in enumerate((DAYS[:1], DAYS[:3]), start=1):
        small_halves.publish(settings, dict.fromkeys(days, 3), days)
        for _ in range(3):
            anabranch.read(VIEW, settings=settings).to_arrow()
            batch = snapshot(VersionRef(settings, VIEW, 1).batch_table)
            assert batch is not None
            assert batch.published.keys() == set(days)
        assert len(parsed) == number
    assert batch is not None
    unpublished = replace(batch.newest, note=replace(batch.newest.note, extra={}))
    assert replace(batch, newest=unpublished).published == {}
