"""The user's own command line: each exit code is looked at, and kept with what was said."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass

from anabranch.core.settings import Settings
from anabranch.operate.runtime.environment import environment

_SHOWN = 3
"""Lines at the end of what a command says that the report shows: an error has three."""


@dataclass(frozen=True, slots=True)
class Said:
    """How a command ended, and what it wrote."""

    code: int
    output: str
    errors: str

    @property
    def text(self) -> str:
        """The last lines of it, for the report."""
        lines = [line.strip() for line in f"{self.output}\n{self.errors}".splitlines() if line.strip()]
        return "; ".join(lines[-_SHOWN:])


def command(settings: Settings, *arguments: str, seconds: float = 300) -> Said:
    done = subprocess.run(
        [sys.executable, "-m", "anabranch.apps.cli.main", *arguments],
        env={**os.environ, **environment(settings)}, check=False, capture_output=True, text=True, timeout=seconds,
    )  # fmt: skip
    return Said(done.returncode, done.stdout, done.stderr)


def as_advised(settings: Settings, next_step: str, *more: str) -> Said:
    """The first command of the doctor's advice."""
    return command(settings, *next_step.partition("anabranch ")[2].partition(": ")[0].split(), *more, seconds=1_800)


def patiently(settings: Settings, code: str, *arguments: str, seconds: float = 120) -> Said:
    """Again, as long as it says that it can't be done *now*, by the error's ``code``."""
    until = time.monotonic() + seconds
    while (said := command(settings, *arguments)).code != 0 and code in said.errors and time.monotonic() < until:
        time.sleep(2)
    return said
