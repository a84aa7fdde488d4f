"""Folders of control files, on the local disk and in a store that has no rename and no folders."""

from __future__ import annotations

import time
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from anabranch.certify.verdict import Verdict, read_verdict, verdict_path, write_verdict
from anabranch.change.estimates import Outcome, outcome_files, outcomes, record_outcome
from anabranch.change.migrate.run_heartbeat import last_heartbeat, record_heartbeat
from anabranch.change.migrate.step_progress import forget, observe, step_progress
from anabranch.change.replay.state import ReplayState, delete_control, list_states, read_state, write_state
from anabranch.change.run_progress import REBUILD, RunProgress, all_work, delete_progress, write_progress
from anabranch.compute.batch.manifest import (
    Build,
    discard,
    expire,
    expired_manifests,
    manifests,
    read_manifest,
    write_manifest,
)
from anabranch.core.clocks import Moment
from anabranch.core.errors import BrokenState, TryAgain
from anabranch.core.settings import Settings
from anabranch.core.storage import listed, storage_of
from anabranch.ingest.landing import loaded_files
from anabranch.lake.cut import Cut
from anabranch.lake.files import StagedFile
from anabranch.lake.layout import VersionRef, versions_below
from anabranch.serve import _named_readers, reader_log
from anabranch.serve.served_versions import served_versions, served_views

pytestmark = pytest.mark.unit
DAY = date(2013, 1, 1)


@pytest.fixture
def ref(place: Path) -> VersionRef:
    return VersionRef(Settings(home=place), "delays", 1)


def build(ref: VersionRef, run: str) -> Build:
    staged = StagedFile(f"builds/{run}/part.parquet", 4, 1, {"partition_date": DAY.isoformat()})
    storage_of(path := Path(ref.batch_table) / staged.path).write(path, b"rows")
    return Build(ref.name, ref.version, run, "f", Cut(), (DAY,), "{}", (staged,), 1, 1.0)


def test_a_build_is_published_no_more_once_it_has_expired(ref: VersionRef) -> None:
    for run in ("one", "two"):
        write_manifest(ref.settings, build(ref, run))
    first, second = manifests(ref)
    expired, began = expire(first), time.time()
    assert (manifests(ref), expired_manifests(ref)) == ([second], [expired])
    assert expired_manifests(ref, after=began - 60) == [expired]
    assert expired_manifests(ref, after=began + 60) == []
    assert read_manifest(ref, "two").run == "two"
    with pytest.raises(BrokenState) as missing:
        read_manifest(ref, "one")
    assert missing.value.code == "BUILD_MISSING"


def test_a_file_of_a_run_that_is_there_is_not_called_missing(ref: VersionRef, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_manifest(ref.settings, build(ref, "one"))
    write_verdict(ref.settings, Verdict(ref.name, 1, "one", "flights@1", 1, (DAY,), {}, ()))
    with monkeypatch.context() as patched:
        patched.setattr(storage_of(path), "read", MagicMock(side_effect=PermissionError(13, "no right", str(path))))
        for read in (read_manifest, read_verdict):
            with pytest.raises(TryAgain) as later:
                read(ref, "one")
            assert later.value.code == "BUILD_UNREADABLE"
    for read, file in ((read_manifest, path), (read_verdict, verdict_path(ref, "one"))):
        storage_of(file).write(file, b"{")
        with pytest.raises(BrokenState, match="is unreadable: "):
            read(ref, "one")


def test_an_expiry_that_was_killed_is_finished_by_the_next(ref: VersionRef, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_manifest(ref.settings, build(ref, "one"))

    def killed(_: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(storage_of(path), "remove", killed)
        with pytest.raises(KeyboardInterrupt):
            expire(path)
    assert expire(*manifests(ref)) == expired_manifests(ref)[0]
    assert manifests(ref) == []


def test_a_discarded_build_leaves_nothing(ref: VersionRef) -> None:
    made = build(ref, "one")
    write_manifest(ref.settings, made)
    for _ in range(2):
        discard(ref.settings, made)
    assert manifests(ref) == []
    assert list(storage_of(path := Path(ref.batch_table)).entries(path)) == []


def test_verdicts_outcomes_and_progress_are_found_by_their_run(ref: VersionRef) -> None:
    settings = ref.settings
    with pytest.raises(BrokenState) as missing:
        read_verdict(ref, "one")
    assert missing.value.code == "VERDICT_MISSING"
    write_verdict(settings, Verdict(ref.name, 1, "one", "flights@1", 1, (DAY,), {}, ()))
    assert read_verdict(ref, "one").equal == (DAY,)
    for number, run in enumerate(("a", "b", "c")):
        record_outcome(ref, Outcome(run, 1, 10, 1.0, 100, datetime(2013, 1, 1 + number, tzinfo=UTC)))
    assert [outcome.run for outcome in outcomes(ref)] == ["a", "b", "c"]
    assert outcome_files(ref) == []
    now = RunProgress(ref.name, 1, "d", REBUILD, 1, 10, time.time(), updated=time.time())
    write_progress(settings, now)
    assert [(view, version, run) for view, version, run, _ in all_work(settings)] == [("delays", 1, "d")]
    delete_progress(settings, now)
    assert list(all_work(settings)) == []


def test_the_states_of_replays_are_listed_in_their_order(ref: VersionRef) -> None:
    for number, run in ((2, "a"), (1, "b")):
        write_state(ref.settings, ReplayState(ref.name, 1, run, number=number))
    assert [state.run for state in list_states(ref)] == ["b", "a"]
    state = read_state(ref, "a")
    assert state is not None
    delete_control(ref.settings, state)
    assert [state.run for state in list_states(ref)] == ["b", "a"]


def test_reads_are_counted_and_only_the_newest_kept(ref: VersionRef, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_log, "_KEPT", 2)
    monkeypatch.setattr(reader_log, "_SECONDS", 0.0)
    for route in range(4):
        reader_log.record_failed(ref, "ann", "CODE", engine="read", route=route)
        time.sleep(0.01)
    assert [read.route for read in reader_log.failed_reads(ref)] == [2, 3]
    assert [read.route for read in reader_log.failed_reads(ref, 3)] == [3]


def test_who_reads_a_version_by_its_number(ref: VersionRef, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_named_readers, "_last_written", {})
    _named_readers.record_reader(ref, "ann")
    now = datetime.now(UTC)
    assert [reader.name for reader in _named_readers.named_readers(ref, now - timedelta(seconds=60))] == ["ann"]
    assert _named_readers.named_readers(ref, now + timedelta(seconds=60)) == []


def test_a_migrations_heartbeat_and_progress(ref: VersionRef) -> None:
    settings = ref.settings
    assert last_heartbeat(settings, ref.name, "run") is None
    record_heartbeat(settings, ref.name, "run")
    assert abs((last_heartbeat(settings, ref.name, "run") or 0) - time.time()) < 5
    for number in (1, 2):
        observe(settings, ref.name, number, reached=Moment.now())
    forget(settings, ref.name, 2)
    assert step_progress(settings, ref.name, 1).reached is None
    assert step_progress(settings, ref.name, 2).reached is not None


def test_loaded_files_are_known_by_their_content(ref: VersionRef) -> None:
    for number, content in ((1, "ab" * 32), (2, "cd" * 32)):
        loaded_files.record_file(ref.settings, "sales", loaded_files.LoadedFile(number, "f.csv", content, 3))
    assert sorted(loaded_files._recorded(ref.settings, "sales")) == ["ab" * 32, "cd" * 32]


def test_versions_are_those_that_have_a_folder(ref: VersionRef) -> None:
    home, lake = ref.settings.home, ref.settings.lake
    for name in ("delays/v2/speed", "delays/v10/speed", "delays/v0", "delays/vx", "No View/v1", "orders/v1"):
        storage_of(home).write(lake / "views" / name / "x", b"")
    found = versions_below(ref.settings, lake / "views", home / "none")
    assert [str(each) for each in found] == ["delays v2", "delays v10", "orders v1"]
    assert served_versions(ref.settings, "delays")[:2] == [10, 2]
    assert {"delays", "orders"} <= set(served_views(ref.settings))
    assert listed(lake / "none") == []
