"""A process that was taken for dead comes back after its successor."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from anabranch.core.settings import Settings
from anabranch.ingest.landing.audit.verify import verify
from anabranch.operate.doctor._run_checks import Report
from anabranch.operate.runtime import lifecycle
from support.landed_sample import FLIGHTS
from support.processes import eventually
from support.real_programs import process
from support.sent_records import landed, level, send

pytestmark = [pytest.mark.system, pytest.mark.sweep]


@pytest.mark.timeout(600)
def test_a_landing_that_was_paused_ends_when_it_finds_its_successor(
    own_settings: Callable[[str], Settings], diagnosis: Callable[..., Report], tmp_path: Path
) -> None:
    small = {"max_offsets_per_trigger": 300}
    with lifecycle.running(own_settings("zombie").model_copy(update=small), ["kafka"]) as settings:
        sent = 0
        with process(settings, "landing") as zombie:
            eventually(lambda: "landing flights" in zombie.said, 60)
            sent += send(settings, 1)
            eventually(lambda: landed(settings) > 300, 60)
            zombie.signal_all(signal.SIGSTOP)  # in the middle of one of its micro-batches
            assert landed(settings) < sent
            with process(settings, "landing") as successor:
                eventually(lambda: landed(settings) == sent, 90)
                zombie.signal_all(signal.SIGCONT)
                started = time.monotonic()
                assert zombie.popen.wait(45) == 1
                seconds = time.monotonic() - started
                assert "has taken over at" in zombie.said
                assert "[FENCED]" in zombie.said
                sent += send(settings, 2)
                eventually(lambda: landed(settings) == sent, 90)
                assert successor.popen.poll() is None, successor.said[-2_000:]
                successor.popen.send_signal(signal.SIGTERM)
                assert successor.popen.wait(30) == 0
        assert verify(settings, FLIGHTS).sound
        assert not diagnosis(settings).findings
        assert seconds < 30


@pytest.mark.timeout(900)
def test_a_speed_process_that_was_paused_ends_when_it_finds_its_successor(
    own_settings: Callable[[str], Settings], diagnosis: Callable[..., Report]
) -> None:
    """All its streams at once, each in the middle of what it does, over the checkpoints that the other one uses."""
    small = {"max_offsets_per_trigger": 300}
    with lifecycle.running(own_settings("speed-zombie").model_copy(update=small), ["kafka", "landing"]) as settings:
        with process(settings, "speed") as zombie:
            sent = send(settings, 1)
            eventually(lambda: level(settings, sent), 120)
            sent += send(settings, 2)
            eventually(lambda: landed(settings) > sent - 2_000, 60)
            zombie.signal_all(signal.SIGSTOP)
            eventually(lambda: landed(settings) == sent, 90)
            assert not level(settings, sent), "it was done before it was stopped"
            with process(settings, "speed") as successor:
                eventually(lambda: level(settings, sent), 120)
                zombie.signal_all(signal.SIGCONT)
                started = time.monotonic()
                assert zombie.popen.wait(60) == 1
                seconds = time.monotonic() - started
                assert "has taken over at" in zombie.said
                assert "[FENCED]" in zombie.said
                sent += send(settings, 3)
                eventually(lambda: level(settings, sent), 120)
                assert successor.popen.poll() is None, successor.said[-2_000:]
                successor.popen.send_signal(signal.SIGTERM)
                assert successor.popen.wait(60) == 0
        assert not diagnosis(settings).findings
        assert seconds < 45
