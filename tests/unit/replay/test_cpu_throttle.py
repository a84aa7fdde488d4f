"""A process runs for its share of the time, and never stands still because somebody else has died."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from anabranch.change.replay import _cpu_throttle
from anabranch.change.replay._cpu_throttle import Throttle

pytestmark = pytest.mark.unit
BUSY = [sys.executable, "-c", "while True: pass"]
OWNER = """
import sys, time
from anabranch.change.replay._cpu_throttle import Throttle
Throttle(int(sys.argv[1])).set(0.02)
print("throttled", flush=True)
time.sleep(60)
"""


@pytest.fixture
def busy() -> Iterator[psutil.Process]:
    with subprocess.Popen(BUSY) as process:
        yield psutil.Process(process.pid)
        process.kill()


def share_of(process: psutil.Process, seconds: float = 1.5) -> float:
    """Of one core."""
    before, began = process.cpu_times(), time.monotonic()
    time.sleep(seconds)
    after = process.cpu_times()
    return (after.user + after.system - before.user - before.system) / (time.monotonic() - began)


def until(reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def stoppers() -> list[psutil.Process]:
    return [p for p in psutil.Process().children() if str(Path(_cpu_throttle.__file__)) in " ".join(p.cmdline())]


def test_it_runs_for_its_share_and_freely_afterwards(busy: psutil.Process) -> None:
    held = Throttle(busy.pid)
    held.set(0.2)
    time.sleep(0.3)
    assert share_of(busy) < 0.4
    held.set(1.0)
    time.sleep(0.3)
    assert busy.status() != psutil.STATUS_STOPPED
    held.set(0.05)
    time.sleep(0.3)
    held.close()
    assert busy.status() != psutil.STATUS_STOPPED
    assert stoppers() == []


def test_nobody_is_started_for_the_whole_of_the_time(busy: psutil.Process) -> None:
    held = Throttle(busy.pid)
    held.set(1.0)
    assert stoppers() == []
    held.close()


def test_it_is_held_again_when_the_stopper_is_killed(busy: psutil.Process) -> None:
    held = Throttle(busy.pid)
    held.set(0.1)
    time.sleep(0.3)
    (stopper,) = stoppers()
    stopper.send_signal(signal.SIGKILL)
    stopper.wait(10)
    until(lambda: any(other.pid != stopper.pid for other in stoppers()))
    time.sleep(0.3)
    assert 0 < share_of(busy) < 0.4
    held.close()


def test_it_goes_on_when_its_owner_is_killed(busy: psutil.Process) -> None:
    with subprocess.Popen([sys.executable, "-c", OWNER, str(busy.pid)], stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        owner.stdout.readline()
        until(lambda: busy.status() == psutil.STATUS_STOPPED)
        owner.kill()
    until(lambda: share_of(busy, 0.5) > 0.2)


def test_a_process_that_has_ended_is_let_go(busy: psutil.Process) -> None:
    held = Throttle(busy.pid)
    held.set(0.1)
    busy.kill()
    time.sleep(0.5)
    held.close()
