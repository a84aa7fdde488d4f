"""What is taken away, and above all what isn't: for readers, replays, builds, rollbacks and old cuts."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest
from anabranch.certify.verdict import verdict_path
from anabranch.change.estimates import NEWEST, Outcome, outcomes, record_outcome
from anabranch.change.replay.landing_mirror import Mirror
from anabranch.change.replay.state import PUBLISHED, list_states, state_file
from anabranch.change.run_progress import REBUILD, RunProgress, progress_files, write_progress
from anabranch.compute.batch.manifest import MANIFEST, manifests, read_manifest
from anabranch.compute.batch.publish import publish
from anabranch.core.atomic_files import locked
from anabranch.core.engine import spark as engine_module
from anabranch.core.engine.spark import HOLD, hold_scratch, scratch
from anabranch.core.errors import BrokenState, TryAgain
from anabranch.core.settings import Settings
from anabranch.ingest.landing.table.event_counts import count_events
from anabranch.lake import latest_commit
from anabranch.lake.layout import VersionRef, certificates_table, routes_table, run_records
from anabranch.lake.log.archived_commits import ARCHIVE
from anabranch.operate.maintenance import _orphans, _vacuum, maintain
from anabranch.operate.maintenance._report import DAY, ActionKind, Policy
from anabranch.serve import read
from anabranch.serve.retirement import drop, retire
from anabranch.serve.routes import route_history, route_of, set_route
from deltalake import DeltaTable
from support.lock_holders import holder
from support.maintained_platform import EPOCHS, busy, files, later, on_disk, rows, said, shorten, speed_of
from support.small_platform import DAYS, NAME, V1, V2, Clinic, departed

pytestmark = pytest.mark.unit
SIX, EIGHT, MONTH = 6.9, 8, 31


@pytest.fixture
def clinic(tmp_path: Path) -> Clinic:
    return busy(tmp_path / "home")


def test_a_reader_has_seven_days(clinic: Clinic) -> None:
    held = read(NAME, settings=clinic.settings)
    expected = len(read(NAME, settings=clinic.settings).to_arrow())
    maintain(clinic.settings)
    maintain(clinic.settings, later(SIX))
    assert len(read(NAME, settings=clinic.settings).to_arrow()) == expected
    assert all(Path(path).exists() for path in held._plan.files())
    assert DeltaTable(speed_of(clinic), version=3).to_pyarrow_table().num_rows
    maintain(clinic.settings, later(EIGHT))
    with pytest.raises(TryAgain) as expired:
        held.to_arrow()
    assert expired.value.code == "READING_EXPIRED"
    assert len(read(NAME, settings=clinic.settings).to_arrow()) == expected


AHEAD = """
import sys, time
from pathlib import Path
real = time.time
time.time = lambda: real() + float(sys.argv[2]) * 86_400
from anabranch.core.settings import Settings
from anabranch.operate.maintenance import maintain
print(maintain(Settings(home=Path(sys.argv[1]))))
"""
"""Maintenance by a process whose wall clock is ahead."""


def maintained_ahead(clinic: Clinic, days: float) -> str:
    command = [sys.executable, "-c", AHEAD, str(clinic.settings.home), str(days)]
    done = subprocess.run(command, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def test_a_reader_has_seven_days_though_the_clock_is_set_ahead(clinic: Clinic) -> None:
    held = read(NAME, settings=clinic.settings)
    maintain(clinic.settings)
    clinic.build("waits", DAYS[:2])
    before = on_disk(clinic.handle().batch_table)
    for days in (8, 8, 31):
        said = maintained_ahead(clinic, days)
        assert "clock: the clock was set ahead by" in said
        assert all(Path(path).exists() for path in held._plan.files())
        assert [path.stem for path in manifests(clinic.handle())] == ["waits"]
        assert on_disk(clinic.handle().batch_table) == before
    assert not maintain(clinic.settings, plan=True).failed
    assert "clock" not in str(maintain(clinic.settings)), "it was set back"
    assert len(held.to_arrow())


@pytest.fixture
def ancient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file on disk was written long ago."""
    monkeypatch.setattr(
        _vacuum,
        "files_with_times",
        lambda base: ((Path(path), Path(path).stat().st_size, 0.0) for path in on_disk(str(base))),
    )


@pytest.mark.usefixtures("ancient")
def test_what_a_micro_batch_has_replaced_is_kept_as_long(clinic: Clinic) -> None:
    """Not only what a compaction took away; by when that was, not by when it was written."""
    uri = speed_of(clinic)
    before = on_disk(uri)
    clinic.speed(DAYS[:2], origin="A00")
    maintain(clinic.settings, later(SIX))
    assert before <= on_disk(uri)
    maintain(clinic.settings, later(EIGHT))
    assert on_disk(uri) == set(files(uri))


@pytest.mark.usefixtures("ancient")
@pytest.mark.parametrize("aside", [False, True])
def test_landings_files_are_there_as_long_as_its_log_names_them(clinic: Clinic, tmp_path: Path, aside: bool) -> None:
    before = on_disk(clinic.uri)
    maintain(clinic.settings)
    if aside:
        clinic.land([departed(400)], [departed(401)])
        shorten(clinic.uri)
        assert len(log(clinic)) == 2
    maintain(clinic.settings, later(29))
    assert before <= on_disk(clinic.uri)
    assert Mirror(clinic.uri, tmp_path / "early").released == 0, "a replay is given one epoch after the other"
    maintain(clinic.settings, later(MONTH))
    assert on_disk(clinic.uri) == set(files(clinic.uri))
    late = Mirror(clinic.uri, tmp_path / "late")
    assert late.released == DeltaTable(clinic.uri).version(), "all of it at once"
    assert not aside or not list((Path(clinic.uri) / ARCHIVE).iterdir())
    assert rows(late.uri) == rows(clinic.uri)


def test_an_old_cut_can_be_computed_for_ever(clinic: Clinic) -> None:
    def events(epoch: int) -> int:
        table = DeltaTable(clinic.uri)
        return sum(n.events for n in count_events(table, ["flight.departed"], None, epoch).values())

    before = [events(epoch) for epoch in range(EPOCHS + 1)]
    for days in (0, EIGHT, MONTH, 400):
        maintain(clinic.settings, later(days))
        assert [events(epoch) for epoch in range(EPOCHS + 1)] == before
    assert len(set(before)) > EPOCHS - 3


@pytest.mark.parametrize("killed", [False, True])
def test_a_replay_under_way_keeps_landings_files_and_commits(clinic: Clinic, killed: bool) -> None:
    clinic.replay("r1")
    _, mirrors, _ = clinic.folders_of("r1")
    mirror = Mirror(clinic.uri, mirrors / "flights")
    mirror.release(3)
    maintain(clinic.settings)
    before, commits = on_disk(clinic.uri), log(clinic)
    done = maintain(clinic.settings, later(400))
    assert before <= on_disk(clinic.uri)
    assert commits <= log(clinic)
    assert next(deed.said for deed in done.actions if deed.act is ActionKind.HELD_BACK).endswith(
        f"replay r1 of {NAME} v1 is under way"
    )
    mirror = Mirror(clinic.uri, mirrors / "flights") if killed else mirror
    mirror.release(EPOCHS + 1)
    assert rows(mirror.uri) == rows(clinic.uri)


@pytest.mark.usefixtures("ancient")
def test_a_replay_whose_state_is_torn_counts_as_under_way(clinic: Clinic) -> None:
    clinic.replay("r1")
    Mirror(clinic.uri, clinic.folders_of("r1")[1] / "flights").release(3)
    state_file(clinic.handle(), "r1").write_text("")
    maintain(clinic.settings)
    before, commits = on_disk(clinic.uri), log(clinic)
    done = maintain(clinic.settings, later(400))
    assert before <= on_disk(clinic.uri)
    assert commits <= log(clinic)
    assert any("whose state can't be read" in deed.said for deed in done.actions)


@pytest.mark.usefixtures("ancient")
@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_replays_that_can_not_be_listed_are_not_taken_for_none(clinic: Clinic, level: int) -> None:
    clinic.replay("r1")
    mirrors = clinic.folders_of("r1")[1]
    Mirror(clinic.uri, mirrors / "flights").release(3)
    unlisted = [mirrors, *mirrors.parents][level]
    assert unlisted.is_relative_to(clinic.settings.home / "replays")
    maintain(clinic.settings)
    before, commits = on_disk(clinic.uri), log(clinic)
    unlisted.rename(clinic.settings.home / "aside")
    unlisted.symlink_to(unlisted)
    assert maintain(clinic.settings, later(400)).failed
    assert before <= on_disk(clinic.uri)
    assert commits <= log(clinic)


def log(clinic: Clinic) -> set[str]:
    return {path.name for path in (Path(clinic.uri) / "_delta_log").glob("*.json")}


def test_a_build_that_waits_is_published_weeks_later(clinic: Clinic) -> None:
    clinic.reprocess("shown", DAYS[2:3])
    build = clinic.build("waits", DAYS[:2])
    clinic.certify("waits", DAYS[:2])
    maintain(clinic.settings, later(29))
    assert publish(clinic.handle(), read_manifest(clinic.handle(), "waits"), DAYS[:2])
    assert len(rows(clinic.handle().batch_table)) == build.rows + 2
    assert not said(clinic, later(29)).findings


def test_a_build_that_nobody_published_goes_in_two_steps(clinic: Clinic) -> None:
    clinic.reprocess("shown", DAYS[2:4])
    clinic.build("waits", DAYS[:2])
    folder = manifests(clinic.handle())[0].parent
    uri = clinic.handle().batch_table
    maintain(clinic.settings, later(MONTH))
    assert manifests(clinic.handle()) == []
    assert len(on_disk(uri)) == 4, "somebody may just be publishing them"
    assert not said(clinic).findings
    with pytest.raises(BrokenState) as gone:
        read_manifest(clinic.handle(), "waits")
    assert gone.value.code == "BUILD_MISSING"
    maintain(clinic.settings, later(MONTH + 1))
    assert on_disk(uri) == set(files(uri))
    assert len(files(uri)) == 2
    assert list(folder.iterdir()) == []
    assert not said(clinic).findings


@pytest.mark.usefixtures("ancient")
def test_a_build_that_has_just_expired_keeps_its_files_for_an_hour(clinic: Clinic) -> None:
    clinic.reprocess("shown", DAYS[2:4])
    build = clinic.build("waits", DAYS[:2])
    uri = Path(clinic.handle().batch_table)
    for minutes in (0, 30):
        maintain(clinic.settings, Policy(keep_days=0, now=time.time() + 60 * minutes + 1))
        assert manifests(clinic.handle()) == []
        assert all((uri / file.path).exists() for file in build.files), "somebody may just be publishing them"
    maintain(clinic.settings, Policy(keep_days=0, now=time.time() + 7_200))
    assert not any((uri / file.path).exists() for file in build.files)


def test_staged_files_of_nobody_go_after_a_week_and_no_sooner(clinic: Clinic) -> None:
    orphan = Path(clinic.handle().batch_table) / "builds" / "died-1" / "partition_date=2013-01-01" / "p.parquet"
    clinic.reprocess("shown", DAYS[2:3])
    orphan.parent.mkdir(parents=True)
    pq.write_table(pq.read_table(files(speed_of(clinic))[0]), orphan)
    for beside in (orphan.with_name(f".{orphan.name}.crc"), orphan.parents[1] / "_SUCCESS"):
        beside.touch()
    maintain(clinic.settings, later(SIX))
    assert orphan.exists()
    maintain(clinic.settings, later(EIGHT))
    assert not orphan.parents[1].exists()


def test_a_file_that_was_linked_a_moment_ago_is_young(clinic: Clinic) -> None:
    """A replay is published by links to files that may be weeks old."""
    uri = speed_of(clinic)
    source = Path(files(uri)[0])
    os.utime(source, (time.time() - 60 * DAY,) * 2)
    link = Path(uri) / "builds" / "replay-r-1" / "partition_date=2013-01-01" / "part-0.parquet"
    link.parent.mkdir(parents=True)
    os.link(source, link)
    maintain(clinic.settings)
    assert link.exists()


def test_a_home_behind_a_link_loses_nothing(tmp_path: Path) -> None:
    """delta-rs names a table's files by where they really are."""
    (tmp_path / "disk").mkdir()
    (tmp_path / "home").symlink_to(tmp_path / "disk")
    clinic = busy(tmp_path / "home", 4)
    before = rows(clinic.uri)
    for days in (0, EIGHT, MONTH):
        assert not maintain(clinic.settings, later(days)).failed
        assert not said(clinic, later(days)).findings
    assert (rows(clinic.uri), len(on_disk(clinic.uri))) == (before, 2)


def test_readers_are_led_back_to_a_version_that_was_kept(tmp_path: Path) -> None:
    clinic = Clinic(replace(busy(tmp_path / "home")).settings, (V1, V2))
    clinic.batches = {"speed-v1": EPOCHS - 1}
    clinic.speed(view=V2)
    for share in (1, 5, 25, 50, 100):
        set_route(clinic.settings, NAME, {1: 100 - share, 2: share}, by="anna", why="test")
    history, expected = route_history(clinic.settings, NAME), len(read(NAME, 1, settings=clinic.settings).to_arrow())
    for days in (0, EIGHT, MONTH):
        maintain(clinic.settings, later(days))
    assert (len(files(routes_table(clinic.settings, NAME))), route_history(clinic.settings, NAME)) == (1, history)
    route = route_of(clinic.settings, NAME)
    assert route == history[-1]
    back = set_route(clinic.settings, NAME, {1: 100}, by="anna", why="back", after=5)
    assert (back.number, len(read(NAME, settings=clinic.settings).to_arrow())) == (6, expected)


def test_commits_end_at_a_checkpoint_that_is_old_enough(clinic: Clinic) -> None:
    maintain(clinic.settings, replace(later(0), checkpoint_commits=5))
    clinic.land([departed(100)])
    maintain(clinic.settings, later(29))
    assert 0 in versions(clinic)
    assert any(deed.said == "old files of its log" for deed in maintain(clinic.settings, later(MONTH)).actions)
    left = versions(clinic)
    assert left == list(range(left[0], DeltaTable(clinic.uri).version() + 1))
    assert DeltaTable(clinic.uri, version=left[0]).file_uris()
    assert not list((Path(clinic.uri) / "_delta_log").glob(f"{left[0] - 1:020d}*"))
    assert not said(clinic, later(MONTH)).findings
    clinic.land([departed(500)])
    newest = latest_commit(clinic.uri)
    assert newest is not None
    assert newest.version == left[-1] + 1


def versions(clinic: Clinic) -> list[int]:
    return sorted(int(name.removesuffix(".json")) for name in log(clinic))


def test_a_newest_commit_that_says_nothing_keeps_the_log(clinic: Clinic) -> None:
    clinic.land(*([departed(100 + n)] for n in range(4)))
    clinic.compact()
    clinic.table.update_incremental()
    clinic.table.create_checkpoint()
    before = versions(clinic)
    done = maintain(clinic.settings, later(MONTH))
    assert any("the newest one has no metadata" in deed.said for deed in done.actions)
    assert versions(clinic) == before


def test_certificates_are_merged_and_say_the_same(clinic: Clinic) -> None:
    for number in range(8):
        clinic.reprocess(f"run-{number}", DAYS[:1])
    uri = certificates_table(clinic.settings)
    before = rows(uri)
    maintain(clinic.settings)
    assert (len(files(uri)), rows(uri)) == (1, before)
    assert not said(clinic).findings


def test_how_old_replays_ended_is_forgotten_and_their_checkpoints_go(clinic: Clinic) -> None:
    clinic.replay("whole", PUBLISHED)
    clinic.replay("days", PUBLISHED, "2013-01-01")
    _, _, checkpoint = clinic.folders_of("whole")
    maintain(clinic.settings, later(29))
    assert len(list_states(clinic.handle())) == 2
    assert not checkpoint.exists(), "its turn never came"
    maintain(clinic.settings, later(MONTH))
    assert list_states(clinic.handle()) == []
    assert not said(clinic).findings


def test_the_checkpoint_that_a_live_stream_goes_on_with_stays(clinic: Clinic) -> None:
    clinic.replay("whole", PUBLISHED)
    _, _, checkpoint = clinic.folders_of("whole")
    (checkpoint / "metadata").write_text('{"id": "speed-v1"}')
    maintain(clinic.settings, later(400))
    assert checkpoint.exists()
    assert len(list_states(clinic.handle())) == 1


def test_the_newest_outcomes_stay_for_estimates(clinic: Clinic) -> None:
    finished = clinic.platform().now
    for number in range(NEWEST + 5):
        at = datetime.fromtimestamp(finished, UTC) + timedelta(seconds=number)
        record_outcome(clinic.handle(), Outcome(f"run-{number:02d}", 1, 1, 1.0, 1, at))
    before = outcomes(clinic.handle())
    maintain(clinic.settings, later(MONTH))
    assert outcomes(clinic.handle()) == before
    assert len(list((clinic.settings.home / "control" / "builds" / NAME / "v1").iterdir())) == NEWEST


def test_the_verdicts_of_old_certifications_go_but_for_the_newest(clinic: Clinic) -> None:
    clinic.reprocess("built", DAYS[:1])
    for number, run in enumerate(["certify-b", "certify-a", "certify-c"]):
        clinic.certify(run, DAYS[:1])
        path = verdict_path(clinic.handle(), run)
        os.utime(path, (path.stat().st_mtime + number, path.stat().st_mtime + number))
    folder = verdict_path(clinic.handle(), "any").parent
    before = {path.name for path in folder.glob("*.verdict.json")}
    assert "built.verdict.json" in before, "it goes when its build goes"
    maintain(clinic.settings, later(2))
    assert {path.name for path in folder.glob("*.verdict.json")} == before
    maintain(clinic.settings, later(MONTH))
    left = {path.name for path in folder.glob("*.verdict.json")}
    assert left == {"built.verdict.json", "certify-c.verdict.json"}, "the page shows it beside its certificate"


def test_which_control_files_are_newest_is_not_said_by_the_times_of_files(clinic: Clinic) -> None:
    """A backup that was put back, or a clock that was ahead for a while: the newest one looks like the oldest."""
    finished = datetime.fromtimestamp(clinic.platform().now, UTC)
    newest_first = list[Path]()
    for number in range(NEWEST + 5):
        outcome = Outcome(f"run-{number:02d}", 1, 1, 1.0, 1, finished + timedelta(seconds=number))
        newest_first.insert(0, record_outcome(clinic.handle(), outcome))
    for run in ("certify-b", "certify-a", "certify-c"):
        clinic.certify(run, DAYS[:1])
        newest_first.insert(0, verdict_path(clinic.handle(), run))
    for number, path in enumerate(newest_first):
        os.utime(path, (number + 1, number + 1))
    before = outcomes(clinic.handle())
    maintain(clinic.settings)
    assert outcomes(clinic.handle()) == before
    assert [path.name for path in newest_first[0].parent.glob("*.verdict.json")] == ["certify-c.verdict.json"]


def test_the_progress_of_a_killed_job_goes_with_the_control_files_of_old_builds(clinic: Clinic) -> None:
    write_progress(clinic.settings, RunProgress(NAME, 1, "killed", REBUILD, 1, 1, 0.0))
    (path,) = progress_files(clinic.handle())
    maintain(clinic.settings, later(2))
    assert path.exists(), "it may still run"
    maintain(clinic.settings, later(MONTH))
    assert not path.exists()


def test_the_checkpoint_of_a_dropped_version_goes_and_that_of_a_living_one_stays(tmp_path: Path) -> None:
    clinic = Clinic(busy(tmp_path / "home").settings, (V1, V2))
    clinic.batches = {"speed-v1": EPOCHS - 1}
    clinic.speed(view=V2)
    set_route(clinic.settings, NAME, {2: 100}, by="anna", why="test")
    retire(clinic.handle(), by="anna", why="test", grace=timedelta(0))
    one, two = (VersionRef(clinic.settings, NAME, version).speed_checkpoint for version in (1, 2))
    maintain(clinic.settings, later(400))
    assert one.exists(), "it may be reinstated"
    drop(clinic.handle())
    one.mkdir(parents=True)  # a drop that was killed before its end
    (one / "metadata").write_text("{}")
    maintain(clinic.settings, later(2))
    assert (one.exists(), two.exists()) == (False, True)


def test_old_logs_go_and_the_ones_in_use_stay(clinic: Clinic) -> None:
    aside, used = (clinic.settings.logs / name for name in ("landing.log.1", "landing.log"))
    task = clinic.settings.home / "airflow" / "logs" / "dag_id=repair" / "run_id=1" / "attempt=1.log"
    record = run_records(clinic.settings) / "manual-1.json"
    for path in (aside, used, task, record):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    maintain(clinic.settings, later(29))
    assert aside.exists()
    assert record.exists()
    maintain(clinic.settings, later(MONTH))
    assert not record.exists()
    assert (aside.exists(), used.exists(), task.exists(), task.parents[1].exists()) == (False, True, False, False)


ENGINE = """
import sys, time
from anabranch.core.settings import Settings
from anabranch.core.engine.spark import hold_scratch
folder = hold_scratch(Settings(home=sys.argv[1]))
(folder / "0c").mkdir()
(folder / "0c" / "shuffle_0_0_0.data").write_bytes(b"rows")
print(folder, flush=True)
time.sleep(600)
"""


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A process that holds its folder, as every engine's does."""
    with subprocess.Popen([sys.executable, "-c", ENGINE, str(tmp_path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process, Path(process.stdout.readline().strip())
        process.kill()


def swept(settings: Settings, seconds: float = 3_700) -> list[tuple[int, int]]:
    found = _orphans.engines(settings, Policy(now=time.time() + seconds), plan=False)
    return [(deed.files, deed.bytes) for deed in found]


def test_what_a_killed_engine_had_on_disk_goes_after_an_hour(
    tmp_path: Path, engine: tuple[subprocess.Popen[str], Path]
) -> None:
    settings, (process, folder) = Settings(home=tmp_path), engine
    assert folder == tmp_path / "tmp" / f"{socket.gethostname()}-{process.pid}"
    assert swept(settings) == [], "it lives"
    process.kill()
    process.wait()
    assert swept(settings, 0) == [], "it may have been killed a moment ago"
    planned = _orphans.engines(settings, Policy(now=time.time() + 3_700), plan=True)
    assert ([deed.bytes for deed in planned], folder.exists()) == ([4], True)
    assert (swept(settings), folder.exists()) == ([(1, 4)], False)


def test_an_engine_of_another_container_keeps_its_folder(
    tmp_path: Path, engine: tuple[subprocess.Popen[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its number says nothing here: nobody has it, or somebody else."""
    settings, (process, folder) = Settings(home=tmp_path), engine
    monkeypatch.setattr(psutil, "pid_exists", lambda _: False)
    there = folder.rename(folder.with_name("0f3c9d1e2a4b-1"))
    assert (swept(settings), there.exists()) == ([], True)
    monkeypatch.setattr(psutil, "pid_exists", lambda _: True)
    process.kill()
    process.wait()
    assert (swept(settings), there.exists()) == ([(1, 4)], False)


def test_a_folder_whose_lock_cannot_be_asked_stays(
    tmp_path: Path, engine: tuple[subprocess.Popen[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    process, folder = engine
    process.kill()
    process.wait()

    def refused(*_: object) -> None:
        raise OSError(errno.ENOLCK, "no locks available")

    monkeypatch.setattr(fcntl, "flock", refused)
    assert (swept(Settings(home=tmp_path)), folder.exists()) == ([], True)


def test_a_process_that_comes_while_its_folder_is_taken_away_holds_a_new_one(tmp_path: Path) -> None:
    """Another one had its number before."""
    settings = Settings(home=tmp_path)
    old = scratch(settings)
    old.mkdir(parents=True)
    with ThreadPoolExecutor(1) as pool, locked(old / HOLD):
        coming = pool.submit(hold_scratch, settings)
        time.sleep(0.2)
        assert not coming.done(), "it waits"
        shutil.rmtree(old)
    folder = coming.result(10)
    assert (folder / HOLD).exists()
    with pytest.raises(BlockingIOError), locked(folder / HOLD):
        pass
    assert hold_scratch(settings) == folder, "once is enough"


def test_a_process_waits_for_its_folder_for_a_stated_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A container with this host's name may have a process with this number."""
    monkeypatch.setattr(engine_module, "FOLDER_DELETED", 0.5)
    settings = Settings(home=tmp_path)
    with holder(scratch(settings) / HOLD) as (other, _):
        with pytest.raises(TryAgain) as caught:
            hold_scratch(settings)
        assert (caught.value.code, f"held by pid {other.pid} (" in caught.value.what) == ("LOCK_HELD", True)
        other.kill()
        assert hold_scratch(settings) == scratch(settings)


def test_what_an_older_release_left_goes_after_a_day(tmp_path: Path) -> None:
    """Its folders were named by numbers only, and nobody held them."""
    settings, ended = Settings(home=tmp_path), subprocess.Popen(["/bin/true"])
    ended.wait()
    for name in (f"{ended.pid}", f"{os.getpid()}", "blockmgr-of-an-older-release"):
        (tmp_path / "tmp" / name / "0c").mkdir(parents=True)
        (tmp_path / "tmp" / name / "0c" / "shuffle_0_0_0.data").write_bytes(b"rows")
    assert swept(settings) == []
    assert swept(settings, 90_000) == [(2, 8)]
    assert [path.name for path in (tmp_path / "tmp").iterdir()] == [f"{os.getpid()}"]


def test_drafts_of_killed_processes_go_after_an_hour(tmp_path: Path) -> None:
    settings, now = Settings(home=tmp_path), time.time()
    with subprocess.Popen(["/bin/true"]) as ended:
        ended.wait()
    folder = settings.home / "control" / "builds"
    folder.mkdir(parents=True)
    old, young, mine = (folder / f".{n}.json.{pid}" for n, pid in enumerate((ended.pid, ended.pid, os.getpid())))
    for path in (old, young, mine, folder / "0.json"):
        path.write_text("{}")
        os.utime(path, (now - 7_200, now - 7_200))
    os.utime(young, (now, now))
    (deed,) = _orphans.drafts(settings, Policy(), plan=True)
    assert (deed.files, old.exists()) == (1, True)
    assert len([*_orphans.drafts(settings, Policy(), plan=False)]) == 1
    assert sorted(folder.iterdir()) == sorted([young, mine, folder / "0.json"])


def test_files_of_a_build_stay_while_its_manifest_cannot_be_read(
    clinic: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    clinic.reprocess("shown", DAYS[2:3])
    build = clinic.build("waits", DAYS[:2])
    clinic.certify("waits", DAYS[:2])

    def fails(path: Path) -> None:
        raise OSError(errno.EMFILE, "too many open files", str(path))

    with monkeypatch.context() as patch:
        patch.setattr(type(MANIFEST), "read", lambda self, path: fails(path))
        done = maintain(clinic.settings, later(EIGHT))
    assert done.failed
    assert "too many open files" in str(done)
    maintain(clinic.settings, later(EIGHT))
    assert publish(clinic.handle(), read_manifest(clinic.handle(), "waits"), DAYS[:2])
    assert len(rows(clinic.handle().batch_table)) == build.rows + 2


def test_a_log_has_no_hole_whatever_the_times_of_its_files_say(clinic: Clinic) -> None:
    """A clock that was ahead for a while: a commit that looks young between old ones."""
    log, policy = Path(clinic.uri) / "_delta_log", replace(later(MONTH), checkpoint_commits=1)
    maintain(clinic.settings, replace(later(0), checkpoint_commits=1))
    commits = sorted(log.glob("*.json"))
    os.utime(commits[1], (time.time() + 2 * MONTH * DAY,) * 2)
    maintain(clinic.settings, policy)
    left = [int(path.stem) for path in sorted(log.glob("*.json"))]
    assert left == list(range(left[0], left[-1] + 1))
    assert left[0] > 1, "the test must make it delete some"
