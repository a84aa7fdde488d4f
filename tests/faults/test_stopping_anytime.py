"""SIGTERM at any time: the streams end within 30 seconds, and the next start finds nothing in doubt."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

import pytest
from anabranch.core.settings import Settings
from anabranch.ingest.landing.audit.verify import verify
from anabranch.operate.doctor._run_checks import Report
from anabranch.operate.runtime import lifecycle
from support.landed_sample import FLIGHTS
from support.processes import eventually
from support.real_programs import process
from support.sent_records import landed, send

pytestmark = [pytest.mark.system, pytest.mark.sweep]

SECONDS = [0.3, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 15.0]
"""From the start of a process to the signal: in its imports, the engine's start, the first micro-batch, later ones."""
LIMIT = 30.0


@pytest.mark.timeout(2_700)
@pytest.mark.parametrize("name", ["landing", "speed"])
def test_a_stream_that_is_told_to_stop_stops_whatever_it_is_at(
    own_settings: Callable[[str], Settings], diagnosis: Callable[..., Report], name: str
) -> None:
    small = {"max_offsets_per_trigger": 200}
    took: dict[float, float] = {}
    with lifecycle.running(own_settings(f"stopped-{name}").model_copy(update=small), ["kafka"]) as settings:
        sent = 0
        if name == "speed":
            with process(settings, "landing"):
                sent += send(settings, 1)
                eventually(lambda: landed(settings) == sent, 120)
        for number, after in enumerate(SECONDS, 2):
            if name == "landing":
                sent += send(settings, number)
            with process(settings, name) as stream:
                time.sleep(after)
                assert stream.popen.poll() is None, stream.said[-2_000:]
                started = time.monotonic()
                stream.popen.send_signal(signal.SIGTERM)
                code = stream.popen.wait(LIMIT)
                took[after] = time.monotonic() - started
                assert code in (0, -signal.SIGTERM), stream.said[-2_000:]
                assert not stream.members()
            findings = [f for f in diagnosis(settings).findings if f.code not in ("DRAFT_LEFT",)]
            assert not findings, findings
        with process(settings, name):
            if name == "landing":
                eventually(lambda: landed(settings) == sent, 180)
                assert verify(settings, FLIGHTS).sound
            else:
                time.sleep(20)
        assert not diagnosis(settings).findings
    assert max(took.values()) < LIMIT, took
