"""The machine's clock is set, by a day, back and ahead."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from anabranch.core.clocks import TOLERATED_SECONDS, WallClock
from anabranch.core.settings import Settings
from anabranch.operate.runtime import _stop_services, lifecycle, process_registry
from anabranch.operate.runtime.process_registry import Record

pytestmark = pytest.mark.unit

DAY = 86_400.0


@dataclass
class Now:
    at: float

    def __call__(self) -> float:
        return self.at


def test_a_clock_that_is_set_back_is_noticed_once_it_would_stop_a_stream() -> None:
    wall, steady = Now(1_000_000.0), Now(50.0)
    clock = WallClock(wall, steady)
    for passed in (0.5, 0.5, 3_600.0):
        wall.at += passed
        steady.at += passed
        assert clock.set_back() == 0
    wall.at -= TOLERATED_SECONDS / 2  # NTP at work
    assert clock.set_back() == 0
    wall.at += DAY
    assert clock.set_back() == 0
    wall.at -= DAY  # what waits for a time of tomorrow would wait for a day
    assert clock.set_back() > DAY - TOLERATED_SECONDS


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    yield process
    process.kill()
    process.wait()


def boot(monkeypatch: pytest.MonkeyPatch, shift: float) -> None:
    """What the kernel says when the clock has been set: the boot is as much later as the clock is."""
    moved = psutil.boot_time() + shift
    monkeypatch.setattr("psutil._psplatform.boot_time", lambda: moved)


@pytest.mark.parametrize("shift", [DAY, -DAY])
def test_processes_are_known_and_stopped_after_the_clock_was_set(
    sleeper: subprocess.Popen[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shift: float
) -> None:
    settings = Settings(home=tmp_path)
    created = psutil.Process(sleeper.pid).create_time()
    born = process_registry.birth(sleeper.pid)
    process_registry.write(
        settings, Record("part", "running", sleeper.pid, created, (), None, "", 0, 15, 5.0, birth=born)
    )
    boot(monkeypatch, shift)
    assert abs(psutil.Process(sleeper.pid).create_time() - created) > DAY / 2, "the clock was not set"
    assert [part.state for part in lifecycle.status(settings)] == ["running"]
    assert _stop_services.stop(settings) == ["part"]
    assert sleeper.wait(5) != 0
    assert process_registry.read(settings) == {}


def test_a_pid_that_was_used_again_is_not_the_process(sleeper: subprocess.Popen[bytes]) -> None:
    created, born = psutil.Process(sleeper.pid).create_time(), process_registry.birth(sleeper.pid)
    assert process_registry.find(sleeper.pid, created, born) is not None
    assert process_registry.find(sleeper.pid, created, f"{born}1") is None
    boot_id, _, ticks = born.partition(":")
    assert process_registry.find(sleeper.pid, created, f"another-boot:{ticks}") is None
    assert process_registry.birth(2**22 + 1) == ""
    assert boot_id
