"""Landing waits with its next epoch while a run rebuilds, and only then."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from anabranch.core.settings import Settings
from anabranch.ingest.landing import epoch_pacing
from anabranch.ingest.landing.epoch_pacing import pace_epoch, run_first, run_under_way

pytestmark = pytest.mark.unit
HOLD = """
import sys, time
from pathlib import Path
from anabranch.ingest.landing.epoch_pacing import run_first
from anabranch.core.settings import Settings
with run_first(Settings(home=Path(sys.argv[1]))):
    print("in", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path, landing_seconds_beside_runs=0.6)


def ended_long_ago(settings: Settings) -> None:
    os.utime(settings.locks / "run-first", (time.time() - 60,) * 2)


def rested(settings: Settings) -> float:
    begun = time.monotonic()
    pace_epoch(settings, begun)
    return time.monotonic() - begun


def test_without_a_run_nobody_waits(settings: Settings) -> None:
    assert not run_under_way(settings)
    assert rested(settings) < 0.3
    with run_first(settings):
        pass
    ended_long_ago(settings)
    assert not run_under_way(settings)
    assert rested(settings) < 0.3


def test_an_epoch_beside_a_run_lasts_as_long_as_is_set(settings: Settings) -> None:
    with run_first(settings), run_first(settings):
        assert 0.6 <= rested(settings) < 2
        begun = time.monotonic() - 10
        pace_epoch(settings, begun)
        assert time.monotonic() - begun < 10.3, "an epoch that took longer by itself is not held back"
    assert rested(settings) >= 0.6, "between two steps of a run"
    with run_first(settings):
        assert rested(settings.model_copy(update={"landing_seconds_beside_runs": 0.0})) < 0.3


def test_the_end_of_a_run_ends_the_wait(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epoch_pacing, "_BETWEEN", 0.0)
    inside, leave = threading.Event(), threading.Event()

    def run() -> None:
        with run_first(settings):
            inside.set()
            leave.wait(30)

    thread = threading.Thread(target=run)
    thread.start()
    inside.wait(30)
    threading.Timer(0.3, leave.set).start()
    patient = settings.model_copy(update={"landing_seconds_beside_runs": 30.0})
    assert 0.3 <= rested(patient) < 10
    thread.join()


def test_a_run_that_is_killed_holds_nothing_back(settings: Settings) -> None:
    with run_first(settings):
        pass
    ended_long_ago(settings)
    with subprocess.Popen([sys.executable, "-c", HOLD, str(settings.home)], stdout=subprocess.PIPE) as held:
        assert held.stdout is not None
        held.stdout.readline()
        assert run_under_way(settings)
        held.kill()
    assert not run_under_way(settings)
