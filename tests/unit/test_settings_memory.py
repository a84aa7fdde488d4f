"""What the settings cost each process that loads them: each command, each Airflow task, each part of the platform."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.unit
PROGRAM = """
import pathlib, re
import pydantic_settings
def used():  # kB of this process alone
    return int(re.search(r"^Private_Dirty: +(\\d+) kB$", pathlib.Path("/proc/self/smaps_rollup").read_text(), re.M)[1])
before = used()
import anabranch.core.settings
print(used() - before)
"""


def test_they_use_little_memory() -> None:
    """One pattern such as ``^\\w{0,200}$`` is 20 MB and a tenth of a second: it is compiled with 200 copies of all
    letters of Unicode. Give the length apart (``max_length``)."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True)
    assert int(done.stdout) < 12_000, "kB"
