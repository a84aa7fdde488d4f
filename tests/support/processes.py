"""What tests of running platforms ask of processes."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import psutil
from anabranch.core.settings import Settings
from anabranch.operate.runtime import process_registry
from anabranch.operate.runtime.environment import environment

SLOW: Final = 3
"""Limits are those of two idle cores; nothing is wrong on a machine that is so many times slower."""


def eventually(holds: Callable[[], Any], seconds: float = 60) -> Any:
    """What ``holds`` gives when it is true; it fails after so many seconds, ``SLOW`` times. Not for a limit that is a
    promise: that is measured. What takes long to ask is asked less often: what is waited for needs the processor."""
    deadline = time.monotonic() + seconds * SLOW
    while (asked := time.monotonic()) < deadline:
        if found := holds():
            return found
        time.sleep(min(max(0.1, 3 * (time.monotonic() - asked)), 1))
    raise AssertionError(f"not within {seconds * SLOW} s")


def everything(settings: Settings) -> list[psutil.Process]:
    return [
        process for record in process_registry.read(settings).values() for process in process_registry.family(record)
    ]


def alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def started_part(settings: Settings, module: str, log: str) -> subprocess.Popen[bytes]:
    """A part as `anabranch up` starts it, without its supervisor, which pauses longer from kill to kill. ``log``: the
    file below the home's logs that gets what it prints."""
    settings.logs.mkdir(parents=True, exist_ok=True)
    with (settings.logs / log).open("ab") as out:
        return subprocess.Popen(
            [sys.executable, "-m", module],
            cwd=settings.project,
            env={**os.environ, **environment(settings)},
            stdout=out,
            stderr=out,
        )


class Listener(NamedTuple):
    """``pid``: -1 of a process that this user may not look into. ``host``: an IPv4 address as such."""

    pid: int
    host: str
    port: int


def listening() -> list[Listener]:
    """Everything on this machine that takes connections."""
    found = [(c.pid, c.laddr) for c in psutil.net_connections("inet") if c.status == psutil.CONN_LISTEN]
    return [Listener(-1 if pid is None else pid, at.ip.removeprefix("::ffff:"), at.port) for pid, at in found if at]


@contextmanager
def working(*works: Callable[[threading.Event], None]) -> Iterator[None]:
    """Threads for the length of the block; each is given the event that tells it to stop."""
    stop = threading.Event()
    threads = [threading.Thread(target=work, args=(stop,)) for work in works]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()
