"""Kills a function of ours before each of its changes below a folder: a real process, a real SIGKILL."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

_CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.utime", "os.link"}
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_PROCESSES = multiprocessing.get_context("forkserver")


def killed_before(step: int, below: Path, act: Callable[..., object], *given: Any) -> bool:
    """Run ``act(*given)`` in a process that is killed before its ``step``-th change of a file or a name below a folder
    (1 is the first). False if it ended before."""
    return _ran(step, below, act, *given)[0] != 0


def steps_of(below: Path, act: Callable[..., object], *given: Any) -> int:
    """How many such changes it makes."""
    code, seen = _ran(0, below, act, *given)
    assert code == 0
    return seen


def _ran(step: int, below: Path, act: Callable[..., object], *given: Any) -> tuple[int, int]:
    _PROCESSES.set_forkserver_preload(["anabranch.operate.backup"])
    seen = _PROCESSES.Value("i", 0)
    process = _PROCESSES.Process(target=_run, args=(step, seen, str(below), act, given))
    process.start()
    process.join(60)
    assert process.exitcode in (0, -signal.SIGKILL), f"it ended with {process.exitcode} before step {step}"
    return process.exitcode, seen.value


def _run(step: int, seen: Any, below: str, act: Callable[..., object], given: tuple[Any, ...]) -> None:
    def count() -> None:
        seen.value += 1
        if seen.value == step:
            os.kill(os.getpid(), signal.SIGKILL)

    def watch(event: str, found: tuple[Any, ...]) -> None:
        changes = event in _CHANGES or (event == "open" and isinstance(found[2], int) and found[2] & _WRITES)
        if changes and str(found[0]).startswith(below):
            count()

    sys.addaudithook(watch)
    act(*given)
