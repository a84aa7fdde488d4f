"""A process is stopped (SIGSTOP) inside of what only one may do at a time; its successor does it after the stated time,
without a person."""

from __future__ import annotations

import signal
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
from support import stopped_acts as acts
from support.landed_sample import FLIGHTS
from support.maintained_platform import busy
from support.small_platform import NAME, V2, Clinic
from support.warm_processes import warm

pytestmark = [pytest.mark.unit, pytest.mark.timeout(60)]
SECONDS = 0.7


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_lock_holders, "STOPPED_SECONDS", SECONDS)


@pytest.fixture
def clinic(tmp_path: Path) -> Clinic:
    return busy(tmp_path / "home", 2)


@contextmanager
def stopped(settings: Settings, act: Callable[[Settings], None]) -> Iterator[None]:
    """A process that is stopped in the middle of ``act``, and has been ended by the end of the block."""
    with warm(act, settings) as zombie:
        zombie.wait_until_stopped()
        yield
        zombie.process.join(5)
        assert zombie.process.exitcode == -signal.SIGKILL


def test_of_a_replay(clinic: Clinic) -> None:
    clinic.replay("one")
    with stopped(clinic.settings, acts.replay), exclusive(clinic.handle(), "one"):
        pass


def test_of_a_replay_that_is_cancelled(clinic: Clinic) -> None:
    clinic.replay("one")
    with stopped(clinic.settings, acts.replay):
        assert cancel(clinic.handle(), "bert").phase == CANCELLED
    assert not any(folder.exists() for folder in clinic.folders_of("one"))


def test_of_a_drop(clinic: Clinic) -> None:
    ref = VersionRef(clinic.settings, NAME, 1)
    clinic.speed(view=V2)
    set_route(clinic.settings, NAME, {2: 100}, by="bob", why="v2 is it", retired={1})
    with stopped(clinic.settings, acts.drop):
        assert drop_version(ref, "bob") > 0
    assert not ref.folder.exists()


def test_of_maintenance(clinic: Clinic) -> None:
    with stopped(clinic.settings, acts.maintenance):
        assert not maintain(clinic.settings, Policy()).failed


def test_of_a_load(clinic: Clinic) -> None:
    Path(f"{clinic.settings.home}.csv").touch()
    with (
        stopped(clinic.settings, acts.load),
        _load_files._only_load(clinic.settings, FLIGHTS),
        run_first(clinic.settings),
    ):
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


@pytest.mark.parametrize("act", [acts.vacuum, acts.log_retention])
@pytest.mark.parametrize("begin", [begin_a_stream, begin_a_replay])
def test_of_maintenance_of_landing_and_what_begins(
    clinic: Clinic, act: Callable[[Settings], None], begin: Callable[[Clinic], None]
) -> None:
    with stopped(clinic.settings, act):
        begin(clinic)


def test_of_a_stream_that_begins_and_maintenance_of_landing(clinic: Clinic) -> None:
    with stopped(clinic.settings, acts.stream):
        delete_files(clinic)


def test_of_landing_that_asks_whether_a_run_is_under_way(clinic: Clinic) -> None:
    with stopped(clinic.settings, acts.pace), run_first(clinic.settings):
        pass


def test_of_a_start_of_the_platform(clinic: Clinic) -> None:
    with stopped(clinic.settings, acts.up), _start_lock(clinic.settings):
        pass
