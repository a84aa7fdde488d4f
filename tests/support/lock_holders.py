"""Processes that hold a file lock of the platform: at work, or stopped (SIGSTOP) while they hold it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HOLD = """
import subprocess, sys, time
from pathlib import Path
from anabranch.core.atomic_files import locked
path, shared, engine = Path(sys.argv[1]), sys.argv[2] == "shared", sys.argv[3] == "with an engine"
with locked(path, shared=shared, wait=5):
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) if engine else None
    print(child.pid if child else 0, flush=True)
    time.sleep(600)
"""


@contextmanager
def program(code: str, *given: str) -> Iterator[subprocess.Popen[str]]:
    """Python in a process of its own, killed at the end of the block."""
    command = [sys.executable, "-c", code, *given]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}  # tests' support as well
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def holder(path: Path, *, shared: bool = False, engine: bool = False) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A process that holds the lock and works, and the pid of what it has started, or 0."""
    with program(HOLD, str(path), "shared" if shared else "", "with an engine" if engine else "") as process:
        assert process.stdout is not None
        yield process, int(process.stdout.readline())


def stop(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGSTOP)
    wait_until_stopped(process)


def wait_until_stopped(process: subprocess.Popen[str]) -> None:
    _, status = os.waitpid(process.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status), "it ended before it was stopped"
