"""The disk is full when a part ends, as it is what ended it: the part is started again once there is space."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator

import pytest
from anabranch.core.settings import Settings
from anabranch.operate.runtime import _stop_services, lifecycle, process_registry
from anabranch.operate.runtime._service import Service
from anabranch.operate.runtime._supervisor import supervise
from support.full_disks import Disk
from support.processes import alive, eventually, everything

pytestmark = pytest.mark.unit


@pytest.fixture
def settings(disk: Disk) -> Iterator[Settings]:
    made = Settings(home=disk.path / "home")
    made.home.mkdir()
    stop = threading.Event()
    sleeper = (sys.executable, "-c", "import time; time.sleep(600)")
    supervise(made, [Service("stream", sleeper, made.home, made.logs / "stream.log", grace=2.0)], stop)
    eventually(lambda: state(made) == "running", 15)
    yield made
    stop.set()
    _stop_services.stop(made)


def state(settings: Settings) -> str:
    return next((part.state for part in lifecycle.status(settings)), "")


def test_it_runs_again_and_is_known_when_there_is_space(settings: Settings, disk: Disk) -> None:
    first = process_registry.read(settings)["stream"]
    with disk.full():
        os.kill(first.pid, signal.SIGKILL)
        eventually(lambda: first.process() is None, 5)
        time.sleep(3)  # a start or two that fail
    again = eventually(
        lambda: (
            (found := process_registry.read(settings)["stream"]).pid != first.pid and found.state == "running" and found
        ),
        20,
    )
    assert again.process() is not None
    running = everything(settings)
    assert _stop_services.stop(settings) == ["stream"]
    eventually(lambda: not any(alive(process) for process in running), 5)
