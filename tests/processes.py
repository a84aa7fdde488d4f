"""What tests of running platforms ask of processes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import psutil
from anabranch.control import records
from anabranch.settings import Settings


def eventually(holds: Callable[[], Any], seconds: float = 60) -> Any:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := holds():
            return found
        time.sleep(0.1)
    raise AssertionError(f"not within {seconds} s")


def everything(settings: Settings) -> list[psutil.Process]:
    return [process for record in records.read(settings).values() for process in records.family(record)]


def alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
