"""The broker is killed, stays away, or has no disk left: producers and landing wait, say so, and lose nothing."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest
from anabranch.core.errors import TryAgain
from anabranch.core.settings import Settings
from anabranch.ingest.kafka.admin import existing_topics
from anabranch.ingest.landing.audit.verify import verify
from anabranch.operate.doctor._run_checks import Report
from anabranch.operate.runtime import lifecycle
from anabranch.operate.runtime.lag import lag
from anabranch_samples.faults import Faults
from anabranch_samples.producing import produce_flights
from anabranch_samples.publishing import Pace
from support.landed_sample import FLIGHTS
from support.processes import eventually
from support.sent_records import landed

pytestmark = [pytest.mark.system, pytest.mark.sweep]

Diagnosis = Callable[..., Report]


def part(settings: Settings, name: str) -> lifecycle.PartStatus:
    return next(part for part in lifecycle.status(settings) if part.name == name)


def bounce(settings: Settings) -> None:
    """Kill the broker, and wait until it answers again."""
    before = part(settings, "kafka")
    assert before.pid
    os.kill(before.pid, signal.SIGKILL)
    eventually(lambda: (now := part(settings, "kafka")).restarts > before.restarts and now.state == "running", 60)


class Sending(threading.Thread):
    """The flights of some days, sent by the platform's own producer; ``sent`` counts those with a receipt."""

    def __init__(self, settings: Settings, days: int, rate: float | None = None, first: int = 1) -> None:
        super().__init__(daemon=True)
        self.settings, self.days, self.pace, self.sent = settings, days, Pace(rate=rate), 0
        self.first = date(2013, 1, first)
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            told = produce_flights(
                self.settings, self.first, self.days, self.pace, Faults(duplicates=0.01), 7, quiet=True
            )
            self.sent = sum(count for (topic, _, _), count in told.records.items() if topic == "flights")
        except BaseException as error:  # the test asks for it
            self.error = error


@pytest.mark.timeout(1_200)
def test_the_broker_is_killed_ten_times_while_half_a_million_records_are_sent(
    own_settings: Callable[[str], Settings], diagnosis: Diagnosis
) -> None:
    with lifecycle.running(own_settings("bounced"), ["kafka", "landing"]) as settings:
        first = Sending(settings, 1)
        first.run()
        assert first.error is None, first.error
        eventually(lambda: landed(settings) == first.sent, 90)
        sending = Sending(settings, 210, rate=2_000, first=2)
        sending.start()
        eventually(lambda: landed(settings) > first.sent, 60)
        for _ in range(10):
            assert sending.is_alive(), "it was sent too soon"
            bounce(settings)
            time.sleep(3)
        sending.join(600)
        assert sending.error is None, sending.error
        assert sending.sent > 500_000
        sent = first.sent + sending.sent
        eventually(lambda: landed(settings) >= sent, 300)
        proof = verify(settings, FLIGHTS)
        assert proof.sound, proof.to_json()
        assert landed(settings) == sent, "a record was doubled in the log"
        assert not diagnosis(settings).findings


@pytest.mark.timeout(1_800)
def test_a_broker_that_is_away_for_minutes_is_waited_for(
    own_settings: Callable[[str], Settings], diagnosis: Diagnosis
) -> None:
    settings = own_settings("away")
    with lifecycle.running(settings, ["kafka", "landing"]):
        Sending(settings, 1).run()
        count = eventually(lambda: landed(settings), 90)
        broker = part(settings, "kafka")
        assert broker.pid
        os.kill(broker.pid, signal.SIGSTOP)  # it is there, and doesn't answer: worse than a port that is closed
        away = time.monotonic()
        try:
            with pytest.raises(TryAgain) as caught:
                existing_topics(settings)
            assert caught.value.code == "BROKER_UNREACHABLE"
            eventually(lambda: "unknown (BROKER_UNREACHABLE)" in lag(settings).get("landing", ""), 20)
            eventually(lambda: part(settings, "landing").restarts > 0, 200)
            log = Path(part(settings, "landing").log).read_text(errors="replace")
            assert "[LANDING_ENDED]" in log or "[BROKER_UNREACHABLE]" in log
            time.sleep(max(150 - (time.monotonic() - away), 0))
        finally:
            os.kill(broker.pid, signal.SIGCONT)
        sending = Sending(settings, 2, first=2)
        sending.run()
        assert sending.error is None, sending.error
        eventually(lambda: landed(settings) == count + sending.sent, 120)
        assert verify(settings, FLIGHTS).sound
        assert not diagnosis(settings).findings
