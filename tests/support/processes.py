"""What tests of running platforms ask of processes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import psutil
from anabranch.core.settings import Settings
from anabranch.operate.runtime import process_registry

SLOW: Final = 3
"""Limits are those of two idle cores; nothing is wrong on a machine that is so many times slower."""


def eventually(holds: Callable[[], Any], seconds: float = 60) -> Any:
    """What ``holds`` gives when it is true; it fails after so many seconds, ``SLOW`` times. Not for a limit that is a
    promise: that is measured."""
    deadline = time.monotonic() + seconds * SLOW
    while time.monotonic() < deadline:
        if found := holds():
            return found
        time.sleep(0.1)
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
