"""The clock of a running landing, or of the streams, is set by a day, back and ahead (libfaketime): records are landed,
and readers see them, all the same. A call to a broker that is away ends in time."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from anabranch.core.settings import Settings
from anabranch.ingest.landing.audit.verify import verify
from anabranch.operate.doctor._run_checks import Report
from anabranch.operate.runtime import lifecycle
from support.fake_time import Clock
from support.landed_sample import FLIGHTS
from support.processes import eventually
from support.real_programs import process
from support.sent_records import landed, level, send

pytestmark = [pytest.mark.system, pytest.mark.sweep]
ASK = """
from anabranch.core.settings import Settings
from anabranch.ingest.kafka.admin import existing_topics
existing_topics(Settings(bootstrap_servers="127.0.0.1:1"))
"""


def test_a_call_to_a_broker_that_is_away_ends_in_time(tmp_path: Path) -> None:
    """librdkafka gives the kernel the moment until which it waits. libfaketime sets the clock ahead for librdkafka, not
    for the kernel: to it each wait is one whose clock was set back by a day meanwhile."""
    clock = Clock(tmp_path)
    clock.set("+1d")
    environment = {**os.environ, **clock.environment}
    said = subprocess.run(
        [sys.executable, "-c", ASK], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert "[BROKER_UNREACHABLE]" in said.stderr, said.stderr


@pytest.mark.timeout(900)
def test_landing_goes_on_when_its_clock_is_set(
    own_settings: Callable[[str], Settings], diagnosis: Callable[..., Report], tmp_path: Path
) -> None:
    clock = Clock(tmp_path)
    with lifecycle.running(own_settings("clock"), ["kafka"]) as settings:
        with process(settings, "landing", clock.environment) as landing:
            sent = send(settings, 1)
            eventually(lambda: landed(settings) == sent, 90)
            clock.set("+1d")
            sent += send(settings, 2)
            eventually(lambda: landed(settings) == sent, 30)
            assert landing.popen.poll() is None
            clock.set("+0")  # back by a day: Spark's trigger waits for tomorrow
            sent += send(settings, 3)
            assert landing.popen.wait(30) == 1
            assert "[CLOCK_SET_BACK]" in landing.said
        with process(settings, "landing", clock.environment):  # as the supervisor does
            started = time.monotonic()
            eventually(lambda: landed(settings) == sent, 60)
            assert time.monotonic() - started < 60
        assert verify(settings, FLIGHTS).sound
        assert not diagnosis(settings).findings


@pytest.mark.timeout(900)
def test_streams_go_on_when_their_clock_is_set(
    own_settings: Callable[[str], Settings], diagnosis: Callable[..., Report], tmp_path: Path
) -> None:
    clock = Clock(tmp_path)
    with lifecycle.running(own_settings("speed-clock"), ["kafka", "landing"]) as settings:
        with process(settings, "speed", clock.environment) as speed:
            sent = send(settings, 1)
            eventually(lambda: level(settings, sent), 120)
            clock.set("+1d")
            sent += send(settings, 2)
            eventually(lambda: level(settings, sent), 60)
            assert speed.popen.poll() is None
            clock.set("+0")
            assert speed.popen.wait(60) == 1
            assert "the system clock was set back" in speed.said
            sent += send(settings, 3)
        with process(settings, "speed", clock.environment) as speed:  # as the supervisor does
            eventually(lambda: level(settings, sent), 120)
            assert speed.popen.poll() is None
        assert not diagnosis(settings).findings
