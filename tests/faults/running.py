"""The streaming processes as they really run, beside the supervisor or by hand."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
from anabranch.core.settings import Settings
from anabranch.operate.runtime.environment import environment


class Process:
    """One of spark_jobs/, with the JVM below it; its output in ``log``."""

    def __init__(self, settings: Settings, name: str, more: dict[str, str] | None = None) -> None:
        settings.logs.mkdir(parents=True, exist_ok=True)
        self.log: Path = settings.logs / f"{name}-{len(list(settings.logs.glob('*')))}.log"
        with self.log.open("wb") as output:
            self.popen = subprocess.Popen(
                [sys.executable, str(settings.project / "spark_jobs" / f"{name}.py")],
                cwd=settings.project,
                env={**os.environ, **environment(settings), **(more or {})},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def members(self) -> list[psutil.Process]:
        """The process and all that it has started; nothing once it has ended."""
        with contextlib.suppress(psutil.NoSuchProcess):
            leader = psutil.Process(self.popen.pid)
            return [leader, *leader.children(recursive=True)]
        return []

    def signal_all(self, number: signal.Signals) -> None:
        for member in self.members():
            with contextlib.suppress(psutil.NoSuchProcess):
                member.send_signal(number)

    def end(self) -> None:
        members = self.members()
        for member in members:
            with contextlib.suppress(psutil.NoSuchProcess):
                member.kill()
        self.popen.wait(20)


@contextlib.contextmanager
def process(settings: Settings, name: str, more: dict[str, str] | None = None) -> Iterator[Process]:
    """``landing`` or ``speed`` for the length of a block; killed at its end, if it still runs."""
    started = Process(settings, name, more)
    try:
        yield started
    finally:
        started.end()
