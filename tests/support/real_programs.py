"""The programs of spark_jobs/ as they really run: streams beside the supervisor or by hand, and the steps of a run."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil
from anabranch.core.settings import Settings
from anabranch.operate.jobs import job_file
from anabranch.operate.runtime.environment import environment

PUBLISH = """
import json, sys
from anabranch.change.publish_run import publish_run
from anabranch.core.settings import load_settings
print(json.dumps(publish_run(load_settings(), json.loads(sys.argv[1]))))
"""


class Process:
    """One of spark_jobs/, with the JVM below it; its output in ``log``. ``code`` is run in its place."""

    def __init__(
        self,
        settings: Settings,
        name: str,
        more: Mapping[str, str] | None = None,
        arguments: Sequence[str] = (),
        code: str = "",
    ) -> None:
        settings.logs.mkdir(parents=True, exist_ok=True)
        self.log: Path = settings.logs / f"{name}-{len(list(settings.logs.glob('*')))}.log"
        with self.log.open("wb") as output:
            self.popen = subprocess.Popen(
                [sys.executable, *(["-c", code] if code else [str(job_file(settings, name))]), *arguments],
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

    @property
    def has_engine(self) -> bool:
        with contextlib.suppress(psutil.NoSuchProcess):
            return any(member.name() == "java" for member in self.members())
        return False

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
def process(
    settings: Settings,
    name: str,
    more: Mapping[str, str] | None = None,
    arguments: Sequence[str] = (),
    code: str = "",
) -> Iterator[Process]:
    """``landing``, ``speed``, ``rebuild`` or ``replay`` for the length of a block; killed at its end, if it still
    runs."""
    started = Process(settings, name, more, arguments, code)
    try:
        yield started
    finally:
        started.end()


def publish(settings: Settings, plan: Mapping[str, Any], more: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The step `publish` of a run, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", PUBLISH, json.dumps(plan)],
        env={**os.environ, **environment(settings), **(more or {})},
        check=False, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found
