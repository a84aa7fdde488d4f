"""A version goes when nobody has it, nobody had it lately, and nobody names it; and it can be taken back until then."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import anabranch
import pytest
from anabranch.apps.cli.main import app
from anabranch.change.migrate.promotion_checks import epochs_behind
from anabranch.change.replay.control import drop_version, exclusive, reinstate_version
from anabranch.change.replay.state import CANCELLED, ReplayState, cancelled_text, list_states, write_state
from anabranch.change.reprocess_plan import make_plan
from anabranch.change.reprocess_request import ReprocessRequest
from anabranch.compute.speed.service import Slot, Speed
from anabranch.core.clocks import READING, note_clock
from anabranch.core.errors import AnabranchError, BadInput
from anabranch.core.settings import Settings
from anabranch.core.storage import DISK
from anabranch.lake.layout import VersionRef, existing_tables
from anabranch.serve import _named_readers, retirement, routes
from anabranch.serve._named_readers import NamedReader
from anabranch.serve.retirement import drop, reinstate, retire, size
from anabranch.serve.routes import Route, route_history, route_of, set_route
from anabranch.views import View
from anabranch.views.model.handle import ViewHandle
from anabranch.views.retired_versions import retired_versions
from support import small_halves
from support.small_halves import DAYS, VIEW
from typer.testing import CliRunner

pytestmark = pytest.mark.unit
NOW = timedelta(0)


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Two versions; all readers have the second one."""
    monkeypatch.setattr(routes, "PATIENCE", 0.3)
    monkeypatch.setattr(_named_readers, "_last_written", {})
    settings = Settings(home=tmp_path)
    for version in (1, 2):
        small_halves.start_speed(settings, 3, version=version)
    set_route(settings, VIEW, {1: 50, 2: 50}, by="anna", why="half")
    set_route(settings, VIEW, {2: 100}, by="anna", why="all")
    return settings


def gone(settings: Settings, version: int = 1, grace: timedelta = NOW) -> Route:
    return retire(VersionRef(settings, VIEW, version), by="bob", why="v2 is it", grace=grace)


def refused(change: Callable[[], object]) -> AnabranchError:
    with pytest.raises(AnabranchError) as refusal:
        change()
    return refusal.value


def test_nobody_gets_it_any_more_and_its_tables_stay(settings: Settings) -> None:
    ref = VersionRef(settings, VIEW, 1)
    held = size(ref)
    gone(settings)
    assert retired_versions(settings, VIEW) == {1}
    assert anabranch.read(VIEW, settings=settings).version == 2
    error = refused(lambda: anabranch.read(VIEW, version=1, settings=settings))
    assert (error.code, "reinstate" in error.next_step) == ("VERSION_RETIRED", True)
    assert size(ref) == held > 0
    newest = route_history(settings, VIEW)[-1]
    assert (newest.retired, newest.changed_by, newest.why) == (frozenset({1}), "bob", "v2 is it")
    assert newest == route_of(settings, VIEW)


def test_no_route_leads_to_it_and_later_ones_remember(settings: Settings) -> None:
    gone(settings)
    assert refused(lambda: set_route(settings, VIEW, {1: 100}, by="a", why="back")).code == "VERSION_RETIRED"
    small_halves.start_speed(settings, 3, version=3)
    set_route(settings, VIEW, {2: 50, 3: 50}, by="a", why="on")
    assert retired_versions(settings, VIEW) == {1}


def test_a_retirement_can_be_taken_back(settings: Settings) -> None:
    gone(settings)
    reinstate(VersionRef(settings, VIEW, 1), by="bob", why="too soon")
    assert anabranch.read(VIEW, version=1, settings=settings).version == 1
    set_route(settings, VIEW, {1: 100}, by="bob", why="all back")
    assert refused(lambda: reinstate(VersionRef(settings, VIEW, 1), by="bob", why="again")).code == "NOT_RETIRED"


def test_readers_that_it_has_or_had_lately_keep_it(settings: Settings) -> None:
    assert refused(lambda: gone(settings, 2)).code == "READERS_LEFT"
    waits = refused(lambda: gone(settings, grace=timedelta(hours=1)))
    assert (waits.code, "retire it after" in waits.next_step) == ("GRACE", True)
    assert refused(lambda: gone(settings, 9)).code == "VERSION_UNKNOWN"
    assert retired_versions(settings, VIEW) == frozenset()


def test_a_version_that_was_just_created_is_kept_however_old_the_first_route_is(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It never had readers, and the migration to it hasn't begun."""
    small_halves.start_speed(settings, 3, version=3)
    old = [replace(route, changed_at=route.changed_at - timedelta(days=9)) for route in route_history(settings, VIEW)]
    monkeypatch.setattr(retirement, "route_history", lambda *_: old)
    assert refused(lambda: gone(settings, 3, grace=timedelta(days=7))).code == "GRACE"
    assert retired_versions(settings, VIEW) == frozenset()
    assert 3 in gone(settings, 3).retired


@pytest.mark.parametrize("weeks", [400_000, 999_999], ids=["after the year 9999", "also before the year 1"])
def test_a_grace_that_leaves_the_calendar_is_refused(settings: Settings, weeks: int) -> None:
    wrong = refused(lambda: gone(settings, grace=timedelta(weeks=weeks)))
    assert (wrong.code, wrong.state) == ("DURATION_WRONG", "nothing was changed")


def test_the_only_version_can_not_be_retired(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    small_halves.start_speed(settings, 3)
    assert refused(lambda: gone(settings)).code == "READERS_LEFT"


def test_without_a_route_it_says_which_version_readers_have(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    for version in (1, 2):
        small_halves.start_speed(settings, 3, version=version)
    oldest, newer = (refused(partial(gone, settings, version)) for version in (1, 2))
    assert (oldest.code, newer.code) == ("READERS_LEFT", "READERS_LEFT")
    assert "100 % of the view's readers have it" in oldest.what
    assert "its readers have v1 because no route is set" in newer.what
    assert newer.next_step == f"set one first: anabranch routes set {VIEW} 1=100"


def test_who_names_it_keeps_it(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    anabranch.read(VIEW, version=1, settings=settings, reader="dashboard-7")
    anabranch.read(VIEW, settings=settings, reader="dashboard-8")
    epochs_behind(VersionRef(settings, VIEW, 1))
    monkeypatch.setattr("anabranch.serve.retirement._readers_left_at", lambda *_: datetime.now(UTC) - timedelta(days=9))
    error = refused(lambda: gone(settings, grace=timedelta(days=7)))
    assert (error.code, "read by its number by dashboard-7 (" in error.what) == ("READERS_PINNED", True)
    assert "dashboard-8" not in error.what, "who names no version is led, not pinned"
    assert error.what.count("UTC") == 1, "the platform's own reads are no readers"
    for file in (settings.home / "control" / "named_readers").rglob("v1/*"):
        week = datetime.now(UTC).timestamp() - 8 * 86_400
        os.utime(file, (week, week))
    assert 1 in gone(settings, grace=timedelta(days=7)).retired


def test_a_clock_that_is_set_ahead_retires_nothing_that_is_in_use(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Set ahead by eight days a moment ago: what is younger than that is dated eight days back by now."""
    week, jump = timedelta(days=7), timedelta(days=8)
    anabranch.read(VIEW, version=1, settings=settings, reader="dashboard-7")
    now = note_clock(settings)
    READING.write(settings.home / "maintenance" / "clock.json", replace(now, wall=now.wall - jump.total_seconds()))
    for file in (settings.home / "control" / "named_readers").rglob("v1/*"):
        os.utime(file, (now.wall - jump.total_seconds(),) * 2)
    with monkeypatch.context() as patched:
        patched.setattr(retirement, "_readers_left_at", lambda *_: datetime.now(UTC) - jump)
        assert refused(lambda: gone(settings, grace=week)).code == "GRACE"
        patched.setattr(retirement, "_readers_left_at", lambda *_: datetime.now(UTC) - 2 * jump)
        assert refused(lambda: gone(settings, grace=week)).code == "READERS_PINNED"
    assert retired_versions(settings, VIEW) == frozenset()


@pytest.mark.parametrize("ahead", [True, False])
def test_no_grace_is_none_though_the_clock_was_set_since(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, ahead: bool
) -> None:
    """What has happened behind a jump, or before the clock was set back, seems to lie ahead."""
    day = timedelta(days=1)
    anabranch.read(VIEW, version=1, settings=settings, reader="dashboard-7")
    if ahead:
        now = note_clock(settings)
        READING.write(settings.home / "maintenance" / "clock.json", replace(now, wall=now.wall - day.total_seconds()))
    else:
        monkeypatch.setattr(retirement, "_readers_left_at", lambda *_: datetime.now(UTC) + day)
    assert 1 in gone(settings, grace=timedelta(0)).retired


def test_names_are_kept_once_a_minute_whatever_they_are(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    names = ["../../etc/passwd", "a\nb", "é" * 300, "$(id)"]
    for name in names * 2:
        _named_readers.record_reader(VersionRef(settings, VIEW, 1), name)
    long_ago = datetime.now(UTC) - timedelta(hours=1)
    found = _named_readers.named_readers(VersionRef(settings, VIEW, 1), long_ago)
    assert sorted(each.name for each in found) == sorted(names)
    for file in (settings.home / "control" / "named_readers").rglob("v1/*"):
        os.utime(file, (long_ago.timestamp(), long_ago.timestamp()))
    _named_readers.record_reader(VersionRef(settings, VIEW, 1), "$(id)")
    since = datetime.now(UTC) - timedelta(minutes=5)
    assert _named_readers.named_readers(VersionRef(settings, VIEW, 1), since) == []
    now = 61.0
    _named_readers.record_reader(VersionRef(settings, VIEW, 1), "$(id)")
    assert [type(each) for each in _named_readers.named_readers(VersionRef(settings, VIEW, 1), since)] == [NamedReader]


def test_a_reader_who_may_not_write_reads_all_the_same(settings: Settings) -> None:
    (settings.home / "control").mkdir(exist_ok=True)
    (settings.home / "control" / "named_readers").write_text("a file where the folder should be")
    assert anabranch.read(VIEW, version=1, settings=settings, reader="x").version == 1


def test_a_read_that_no_route_has_led_leaves_nothing_behind(tmp_path: Path) -> None:
    assert refused(lambda: anabranch.read(VIEW, settings=Settings(home=tmp_path))).code == "VIEW_UNKNOWN"
    assert list(tmp_path.iterdir()) == []


def test_only_what_is_retired_is_dropped_and_a_killed_drop_goes_on(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref = VersionRef(settings, VIEW, 1)
    assert refused(lambda: drop(ref)).code == "NOT_RETIRED"
    gone(settings)
    beside = [ref.speed_checkpoint, ref.replay_checkpoints, ref.replay_mirrors]
    for folder in beside:
        folder.mkdir(parents=True)
    held = size(ref)
    kill_drop(monkeypatch, ref)
    assert {table.version for table in existing_tables(settings, "speed", "batch")} == {2}
    assert drop(ref) == held
    assert drop(ref) == 0
    assert not [folder for folder in (*beside, ref.folder) if folder.exists()]
    assert anabranch.read(VIEW, settings=settings).version == 2
    assert list(ref.folder.parent.iterdir()) == [VersionRef(settings, VIEW, 2).folder]


@pytest.mark.parametrize("after", range(4))
def test_a_version_whose_drop_was_killed_begins_anew_when_it_is_taken_back(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    gone(settings)
    ref = VersionRef(settings, VIEW, 1)
    for folder in (ref.speed_checkpoint, ref.replay_checkpoints / "run"):
        folder.mkdir(parents=True)
    kill_drop(monkeypatch, ref, after=after)
    reinstate(ref, by="bob", why="too soon")
    assert not ref.folder.exists()
    assert not ref.speed_checkpoint.exists(), "its stream would go on behind batches that are gone"
    small_halves.start_speed(settings, 6)
    assert str(anabranch.read(VIEW, version=1, settings=settings).cut) == "flights@6"


def test_what_is_dropped_is_not_taken_back_meanwhile(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    gone(settings)
    ref, measure = VersionRef(settings, VIEW, 1), size
    codes = list[str]()

    def meanwhile(of: VersionRef) -> int:
        for act in (lambda: reinstate(ref, by="bob", why="too soon"), lambda: drop(ref)):
            codes.append(refused(act).code)
        return measure(of)

    monkeypatch.setattr(retirement, "size", meanwhile)
    drop(ref)
    assert codes == ["DROP_RUNNING", "DROP_RUNNING"]
    assert retired_versions(settings, VIEW) == {1}
    assert not ref.folder.exists()


@pytest.mark.parametrize("act", [drop, partial(reinstate, by="bob", why="too soon")])
def test_a_drop_that_was_killed_at_its_first_rename_is_completed(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, act: Callable[[VersionRef], object]
) -> None:
    gone(settings)
    ref = VersionRef(settings, VIEW, 1)
    draft = ref.dropping.with_name(f".{ref.dropping.name}.0a1b2c3d.4711")
    draft.touch()
    if act is not drop:
        kill_drop(monkeypatch, ref)
    act(ref)
    assert not ref.folder.exists()


def kill_drop(monkeypatch: pytest.MonkeyPatch, ref: VersionRef, after: int = 0) -> None:
    """Kills a drop when it has cleared so many folders."""
    left, clear = [None] * after, DISK.clear

    def kill(folder: Path) -> None:
        if not left:
            raise KeyboardInterrupt
        left.pop()
        clear(folder)

    with monkeypatch.context() as killed:
        killed.setattr(type(DISK), "clear", lambda _, folder: kill(folder))
        with pytest.raises(KeyboardInterrupt):
            drop(ref)


def test_a_process_that_has_read_a_table_sees_that_it_was_made_again(settings: Settings) -> None:
    """Its commits are counted from 0 again: by the number alone it would be the one of before."""
    for epoch in (4, 5):
        small_halves.merge_speed(settings, epoch, DAYS[:1])
    assert str(anabranch.read(VIEW, version=1, settings=settings).cut) == "flights@5"
    gone(settings)
    drop(VersionRef(settings, VIEW, 1))
    reinstate(VersionRef(settings, VIEW, 1), by="bob", why="too soon")
    assert refused(lambda: anabranch.read(VIEW, version=1, settings=settings)).code == "VIEW_UNKNOWN"
    small_halves.start_speed(settings, 6)
    assert str(anabranch.read(VIEW, version=1, settings=settings).cut) == "flights@6"


def test_its_stream_ends_and_goes_on_when_it_is_taken_back(settings: Settings) -> None:
    versions = [
        View(VIEW, n, ("flight.departed",), ("window_start",), lambda rows: rows, partition_by="window_start")
        for n in (1, 2)
    ]
    stopped: list[int] = []

    def launch(view: View, topics: object) -> object:
        return SimpleNamespace(isActive=True, stop=lambda: stopped.append(view.version))

    speed = Speed([Slot(view, None) for view in versions], launch, 1)  # type: ignore[arg-type]
    speed.poll()
    gone(settings)
    speed.retire(lambda view: view.version in retired_versions(settings, view.name))
    speed.poll()
    assert stopped == [1]
    assert [slot.query is None for slot in speed.slots] == [True, False]
    assert speed.slots[0].status().state == "retired"
    assert not speed.all_failed
    reinstate(VersionRef(settings, VIEW, 1), by="bob", why="too soon")
    speed.retire(lambda view: view.version in retired_versions(settings, view.name))
    speed.poll()
    assert [slot.query is None for slot in speed.slots] == [False, False]


def test_a_drop_ends_a_killed_replay_and_waits_for_a_running_one(settings: Settings) -> None:
    """A replay that went on afterwards would make the version's tables again."""
    ref, state = VersionRef(settings, VIEW, 1), ReplayState(VIEW, 1, "one")
    write_state(settings, state)
    (ref.replay_checkpoints / "one").mkdir(parents=True)
    assert refused(lambda: drop_version(ref, "bob")).code == "NOT_RETIRED"
    assert [each.phase for each in list_states(ref)] == ["streaming"]
    gone(settings)
    with exclusive(ref, "one"):
        assert refused(lambda: drop_version(ref, "bob")).code == "REPLAY_RUNNING"
    assert ref.folder.exists()
    assert drop_version(ref, "bob") > 0
    assert [(each.phase, each.said) for each in list_states(ref)] == [(CANCELLED, cancelled_text("bob"))]
    assert not ref.replay_checkpoints.exists()


def test_a_version_is_not_taken_back_while_a_replay_of_it_runs(settings: Settings) -> None:
    """After a killed drop that would delete the replay's own files."""
    ref = VersionRef(settings, VIEW, 1)
    gone(settings)
    with exclusive(ref, "one"):
        refusal = refused(lambda: reinstate_version(ref, by="bob", why="too soon"))
        assert (refusal.code, "replay cancel" in refusal.next_step) == ("REPLAY_RUNNING", True)
    assert retired_versions(settings, VIEW) == {1}
    reinstate_version(ref, by="bob", why="too soon")
    assert retired_versions(settings, VIEW) == frozenset()


def test_a_killed_replay_goes_on_once_its_version_is_taken_back(settings: Settings) -> None:
    ref = VersionRef(settings, VIEW, 1)
    write_state(settings, ReplayState(VIEW, 1, "one"))
    (ref.replay_checkpoints / "one").mkdir(parents=True)
    gone(settings)
    reinstate_version(ref, by="bob", why="too soon")
    assert [each.phase for each in list_states(ref)] == ["streaming"]
    assert (ref.replay_checkpoints / "one").exists()


def test_a_killed_replay_ends_with_the_killed_drop_that_is_completed(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would go on with a checkpoint that is gone, and make the version's tables again next to its new stream's."""
    ref = VersionRef(settings, VIEW, 1)
    gone(settings)
    kill_drop(monkeypatch, ref)
    write_state(settings, ReplayState(VIEW, 1, "one"))
    (ref.replay_tables / "one").mkdir(parents=True)
    reinstate_version(ref, by="bob", why="too soon")
    assert [(each.phase, each.said) for each in list_states(ref)] == [(CANCELLED, cancelled_text("bob"))]
    assert not ref.folder.exists()


def test_what_ended_replays_have_left_is_deleted_when_their_version_is_taken_back(settings: Settings) -> None:
    ref = VersionRef(settings, VIEW, 1)
    write_state(settings, ReplayState(VIEW, 1, "one", phase=CANCELLED))
    (ref.replay_tables / "one").mkdir(parents=True)
    gone(settings)
    reinstate_version(ref, by="bob", why="too soon")
    assert not (ref.replay_tables / "one").exists()


def test_no_day_of_it_is_planned(settings: Settings) -> None:
    gone(settings)
    view = View(VIEW, 1, ("flight.departed",), ("window_start",), lambda rows: rows, partition_by="window_start")
    with pytest.raises(BadInput, match="retired"):
        make_plan(ViewHandle(settings, view, None), ReprocessRequest((DAYS[0],), {}, explicit=True))  # type: ignore[arg-type]


def test_on_the_command_line(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANABRANCH_HOME", str(settings.home))

    def run(*arguments: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, ["migrate", *arguments])
        return done.exit_code, done.output

    assert "[GRACE]" in run("retire", VIEW, "1", "--why", "x")[1]
    assert "[DURATION_WRONG]" in run("retire", VIEW, "1", "--why", "x", "--grace", "soon")[1]
    assert "[DURATION_WRONG]" in run("retire", VIEW, "1", "--why", "x", "--grace", "999999 weeks")[1]
    assert run("retire", VIEW, "1", "--why", "x", "--grace", "0 days")[0] == 0
    assert run("reinstate", VIEW, "1", "--why", "y")[0] == 0
    assert "[NOT_RETIRED]" in run("drop", VIEW, "1", "--yes")[1]
    run("retire", VIEW, "1", "--why", "x", "--grace", "0 days")
    write_state(settings, ReplayState(VIEW, 1, "one"))
    assert "MB freed" in run("drop", VIEW, "1", "--yes")[1]
    assert [each.phase for each in list_states(VersionRef(settings, VIEW, 1))] == [CANCELLED]


def test_two_changes_at_once_are_not_both_made(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    from anabranch.serve import retirement

    look = retirement._readers_left_at

    def slow(ref: VersionRef, history: Sequence[Route]) -> datetime:
        set_route(settings, VIEW, {1: 10, 2: 90}, by="eve", why="some need it")
        return look(ref, history)

    monkeypatch.setattr(retirement, "_readers_left_at", slow)
    assert refused(lambda: gone(settings)).code == "ROUTE_MOVED"
    assert retired_versions(settings, VIEW) == frozenset()
