"""A clock that is set while a process runs, for that process alone (libfaketime)."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

_LIBRARIES = [*Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), *Path("/usr/lib").glob("faketime/*MT.so.1")]

_IN_EACH_PYTHON = """
import os, select, subprocess, time

# libfaketime 0.9.10 gives time.sleep a time that the kernel refuses, where the steady clock isn't to be faked.
time.sleep = lambda seconds: select.select([], [], [], seconds) and None


class Popen(subprocess.Popen):
    def __init__(self, args, *more, env=None, **options):
        # Airflow asks Postgres for the time, to which the platform gives no variable of its environment.
        if env is not None and os.path.basename(args[0]) == "postgres":
            env = {**env, **{n: v for n, v in os.environ.items() if n == "LD_PRELOAD" or "FAKE" in n}}
        super().__init__(args, *more, env=env, **options)


subprocess.Popen = Popen
"""
_CACHED = 1
"""A process reads the shift again when this many whole seconds are over, and one more has begun."""


class Clock:
    """``environment`` is for the processes whose clock it is. Only the clock that can be set is: not the steady one, of
    which waits are made. Fails where libfaketime isn't installed (infra/faketime.sh): the sweep would have a hole."""

    def __init__(self, folder: Path) -> None:
        if not _LIBRARIES:
            pytest.fail("libfaketime isn't installed: run infra/faketime.sh as root (Debian: apt-get install faketime)")
        self._shift = folder / "shift"
        self._shift.write_text("+0\n")
        (folder / "sitecustomize.py").write_text(_IN_EACH_PYTHON)
        self.environment = {
            "LD_PRELOAD": str(_LIBRARIES[0]),
            "FAKETIME_TIMESTAMP_FILE": str(self._shift),
            "FAKETIME_CACHE_DURATION": str(_CACHED),
            "DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_FORCE_MONOTONIC_FIX": "0",  # with it the waits of a JVM take a core each
            "PYTHONPATH": os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]),
        }

    def set(self, shift: str) -> None:
        """By so much, as in ``+1d``. Returns when each process sees it: a run that is asked for while Airflow's clock
        is still ahead is dated so, and waits until then."""
        self._shift.write_text(f"{shift}\n")
        time.sleep(_CACHED + 1.2)
