"""What tests of running platforms ask of processes."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
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


def started_part(
    settings: Settings, module: str, log: str, more: Mapping[str, str] = MappingProxyType({})
) -> subprocess.Popen[bytes]:
    """A part as `anabranch up` starts it, without its supervisor, which pauses longer from kill to kill. ``log``: the
    file below the home's logs that gets what it prints. ``more``: variables of its environment."""
    settings.logs.mkdir(parents=True, exist_ok=True)
    with (settings.logs / log).open("ab") as out:
        return subprocess.Popen(
            [sys.executable, "-m", module],
            cwd=settings.project,
            env={**os.environ, **environment(settings), **more},
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


@dataclass(frozen=True, slots=True)
class Reach:
    """What some processes hold on a machine, as far as this user may see it."""

    paths: set[str] = field(default_factory=set)
    """Their working directories, open files and Unix sockets."""
    written: set[str] = field(default_factory=set)
    """Those of the files that are open for writing."""
    listens: set[int] = field(default_factory=set)
    connected: set[int] = field(default_factory=set)
    """The ports of others that they are connected to."""

    def below(self, folder: Path) -> set[str]:
        return {path for path in self.paths if Path(path).is_relative_to(folder)}


def reach(processes: Iterable[psutil.Process]) -> Reach:
    """Of each process that still lives. Fails if nothing can be seen of any."""
    found = Reach()
    for process in processes:
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            found.paths.add(process.cwd())
            for file in process.open_files():
                found.paths.add(file.path)
                found.written.update({file.path} if file.mode != "r" else ())
            for connection in process.net_connections("inet"):
                if connection.status == psutil.CONN_LISTEN:
                    found.listens.add(connection.laddr.port)
                elif connection.raddr:
                    found.connected.add(connection.raddr.port)
            found.paths.update(str(each.laddr) for each in process.net_connections("unix") if each.laddr)
    assert found.written, "this user may not look into these processes"
    assert found.listens
    return found


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
