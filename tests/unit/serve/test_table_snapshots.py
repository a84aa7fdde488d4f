"""A table that can't be read is an error: it isn't taken for one that isn't there."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anabranch
import pytest
from anabranch.core.errors import AnabranchError, BadInput, BrokenState
from anabranch.core.settings import Settings
from anabranch.core.storage import DISK
from anabranch.lake.layout import VersionRef
from anabranch.lake.log.commit_errors import unreadable_table
from anabranch.lake.log.delta_tables import delta_table
from anabranch.serve import table_snapshots
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

    def failing(handle: table_snapshots._Handle) -> Snapshot:
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
