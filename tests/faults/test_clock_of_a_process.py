"""The clock of a running landing is set by a day, back and ahead (libfaketime): records are landed all the same."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from anabranch.control import lifecycle
from anabranch.doctor.examining import Report
from anabranch.landing.verify import verify
from anabranch.settings import Settings
from landed import FLIGHTS
from processes import eventually
from running import process
from sending import landed
from test_zombies import send

pytestmark = [pytest.mark.system, pytest.mark.sweep]

LIBRARIES = [*Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), *Path("/usr/lib").glob("faketime/*MT.so.1")]

SLEEP = "import select, time\ntime.sleep = lambda seconds: select.select([], [], [], seconds) and None\n"
"""libfaketime 0.9.10 gives time.sleep a time that the kernel refuses, where the steady clock isn't to be faked."""


@pytest.mark.timeout(900)
def test_landing_goes_on_when_its_clock_is_set(
    own_settings: Callable[[str], Settings], diagnosis: Callable[..., Report], tmp_path: Path
) -> None:
    if not LIBRARIES:
        pytest.skip("libfaketime isn't installed (Debian: apt-get install libfaketime)")
    shift = tmp_path / "shift"
    shift.write_text("+0\n")
    # What isn't set: the clock that nobody sets, and what waits are made of.
    fake = {"LD_PRELOAD": str(LIBRARIES[0]), "FAKETIME_TIMESTAMP_FILE": str(shift), "FAKETIME_CACHE_DURATION": "1"}
    fake |= {"DONT_FAKE_MONOTONIC": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    fake |= {"FAKETIME_FORCE_MONOTONIC_FIX": "0"}  # with it the waits of a JVM take a core each
    (tmp_path / "sitecustomize.py").write_text(SLEEP)
    fake["PYTHONPATH"] = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    with lifecycle.running(own_settings("clock"), ["kafka"]) as settings:
        with process(settings, "landing", fake) as landing:
            sent = send(settings, 1)
            eventually(lambda: landed(settings) == sent, 90)
            shift.write_text("+1d\n")
            sent += send(settings, 2)
            eventually(lambda: landed(settings) == sent, 30)
            assert landing.popen.poll() is None
            shift.write_text("+0\n")  # back by a day: Spark's trigger waits for tomorrow
            sent += send(settings, 3)
            assert landing.popen.wait(30) == 1
            assert "[CLOCK_SET_BACK]" in landing.said
        with process(settings, "landing", fake):  # as the supervisor does
            started = time.monotonic()
            eventually(lambda: landed(settings) == sent, 60)
            assert time.monotonic() - started < 60
        assert verify(settings, FLIGHTS).sound
        assert not diagnosis(settings).findings
