"""A process is stopped (SIGSTOP) inside of what only one may do at a time; its successor does it after the stated time,
without a person."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from anabranch.change.replay.control import cancel, drop_version, exclusive
from anabranch.change.replay.request import ReplayRequest
from anabranch.change.replay.runner import _Replay
from anabranch.change.replay.state import CANCELLED
from anabranch.core import _lock_holders
from anabranch.core.settings import Settings
from anabranch.ingest.files import _load_files
from anabranch.ingest.landing.epoch_pacing import run_first
from anabranch.ingest.landing.log_trimming import keep_commits
from anabranch.lake.layout import VersionRef
from anabranch.operate.maintenance import _log_retention, maintain
from anabranch.operate.maintenance._report import Policy
from anabranch.operate.maintenance._vacuum import vacuum
from anabranch.operate.runtime.lifecycle import _start_lock
from anabranch.serve.routes import set_route
from support.landed_sample import FLIGHTS
from support.lock_holders import program, wait_until_stopped
from support.maintained_platform import busy
from support.small_platform import NAME, V2, Clinic

pytestmark = [pytest.mark.unit, pytest.mark.timeout(60)]
SECONDS = 0.7
IN = """
import sys
from pathlib import Path
from anabranch.core.settings import Settings
from anabranch.lake.layout import EVERY, VersionRef, existing_tables
from support.landed_sample import FLIGHTS
def stops(*given, **more):
    import os, signal
    os.kill(os.getpid(), signal.SIGSTOP)
settings = Settings(home=Path(sys.argv[1]))
ref = VersionRef(settings, "departure_delays", 1)
landing = next(place for place in existing_tables(settings, *EVERY) if place.kind == "landing")
"""
REPLAY = """
from anabranch.change.replay.control import exclusive
with exclusive(ref, "one"):
    stops()
"""
DROP = """
from anabranch.serve import retirement
retirement.size = stops
retirement.drop(ref)
"""
MAINTENANCE = """
from anabranch.operate.maintenance import _runner
_runner._compaction_journal.tidy = stops
_runner.maintain(settings)
"""
LOAD = """
from anabranch.ingest.files import _load_files
_load_files.open_landing = stops
_load_files.load(None, settings, FLIGHTS, [f"{settings.home}.csv"])
"""
VACUUM = """
from anabranch.operate.maintenance import _vacuum
from anabranch.operate.maintenance._report import Policy
_vacuum.replay_over = stops
list(_vacuum.vacuum(settings, landing, Policy(), plan=False))
"""
LOG = """
from anabranch.operate.maintenance import _log_retention
from anabranch.operate.maintenance._report import Policy
_log_retention.open_table = stops
list(_log_retention.clean(settings, landing, Policy(), plan=False))
"""
STREAM = """
from anabranch.ingest.landing import log_trimming
log_trimming.position_in = stops
log_trimming.keep_commits(settings, landing.uri, ref.speed_checkpoint)
"""
PACE = """
from anabranch.ingest.landing import epoch_pacing
epoch_pacing.abs = stops
with epoch_pacing.run_first(settings):
    pass
epoch_pacing.run_under_way(settings)
"""
UP = """
from anabranch.operate.runtime import lifecycle
with lifecycle._start_lock(settings):
    stops()
"""


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_lock_holders, "STOPPED_SECONDS", SECONDS)


@pytest.fixture
def clinic(tmp_path: Path) -> Clinic:
    return busy(tmp_path / "home", 2)


@contextmanager
def stopped(settings: Settings, act: str) -> Iterator[subprocess.Popen[str]]:
    """A process that is stopped in the middle of ``act``, and has been ended by the end of the block."""
    with program(IN + act, str(settings.home)) as zombie:
        wait_until_stopped(zombie)
        yield zombie
        assert zombie.wait(5) == -signal.SIGKILL


def test_of_a_replay(clinic: Clinic) -> None:
    clinic.replay("one")
    with stopped(clinic.settings, REPLAY), exclusive(clinic.handle(), "one"):
        pass


def test_of_a_replay_that_is_cancelled(clinic: Clinic) -> None:
    clinic.replay("one")
    with stopped(clinic.settings, REPLAY):
        assert cancel(clinic.handle(), "bert").phase == CANCELLED
    assert not any(folder.exists() for folder in clinic.folders_of("one"))


def test_of_a_drop(clinic: Clinic) -> None:
    ref = VersionRef(clinic.settings, NAME, 1)
    clinic.speed(view=V2)
    set_route(clinic.settings, NAME, {2: 100}, by="bob", why="v2 is it", retired={1})
    with stopped(clinic.settings, DROP):
        assert drop_version(ref, "bob") > 0
    assert not ref.folder.exists()


def test_of_maintenance(clinic: Clinic) -> None:
    with stopped(clinic.settings, MAINTENANCE):
        assert not maintain(clinic.settings, Policy()).failed


def test_of_a_load(clinic: Clinic) -> None:
    Path(f"{clinic.settings.home}.csv").touch()
    with stopped(clinic.settings, LOAD), _load_files._only_load(clinic.settings, FLIGHTS), run_first(clinic.settings):
        pass


def begin_a_stream(clinic: Clinic) -> None:
    keep_commits(clinic.settings, clinic.uri, clinic.handle().speed_checkpoint)


def begin_a_replay(clinic: Clinic) -> None:
    processes = SimpleNamespace(cpu_seconds=lambda: 0.0)
    begun = _Replay(None, ReplayRequest(clinic.handle(), "two"), clinic.replay("two"), processes)  # type: ignore[arg-type]
    assert begun._feed.total


def delete_files(clinic: Clinic) -> None:
    (place,) = clinic.platform().places("landing")
    for act in (vacuum, _log_retention.clean):
        assert [*act(clinic.settings, place, Policy(), plan=False)] == []


@pytest.mark.parametrize("act", [VACUUM, LOG], ids=["vacuum", "log"])
@pytest.mark.parametrize("begin", [begin_a_stream, begin_a_replay])
def test_of_maintenance_of_landing_and_what_begins(clinic: Clinic, act: str, begin: Callable[[Clinic], None]) -> None:
    with stopped(clinic.settings, act):
        begin(clinic)


def test_of_a_stream_that_begins_and_maintenance_of_landing(clinic: Clinic) -> None:
    with stopped(clinic.settings, STREAM):
        delete_files(clinic)


def test_of_landing_that_asks_whether_a_run_is_under_way(clinic: Clinic) -> None:
    with stopped(clinic.settings, PACE), run_first(clinic.settings):
        pass


def test_of_a_start_of_the_platform(clinic: Clinic) -> None:
    with stopped(clinic.settings, UP), _start_lock(clinic.settings):
        pass
