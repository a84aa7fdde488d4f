"""Ten times the usual rate for five minutes: the lag grows, is seen, and is worked off; memory stays bounded.

A burst of the sample is also a day of events a second: what one partition sends a second behind another is late. Days
that nobody has published then lack events, and the doctor says which, and what to do: that is done, as it says it.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from datetime import date

import pytest
from anabranch.core.settings import Settings
from anabranch.ingest.landing.audit.verify import verify
from anabranch.operate.doctor._run_checks import Report
from anabranch.operate.runtime import lifecycle
from anabranch.operate.runtime.lag import lag
from anabranch_samples.faults import Faults
from anabranch_samples.producing import produce_flights
from anabranch_samples.publishing import Pace
from soak.commands import as_advised
from support.landed_sample import FLIGHTS
from support.processes import eventually
from support.sent_records import landed

pytestmark = [pytest.mark.system, pytest.mark.sweep]

USUAL, TENFOLD = 300.0, 3_000.0
"""Records a second."""
MINUTES = 5
BOUND = 3.5e9
"""Bytes of one stream: the engine's 2 GB of heap, what it keeps beside it, and Python."""


def behind(settings: Settings) -> int:
    found = re.search(r"flights: ([\d,]+) records", lag(settings).get("landing", ""))
    return int(found[1].replace(",", "")) if found else 0


@pytest.mark.timeout(3_600)
def test_a_burst_is_worked_off(own_settings: Callable[[str], Settings], diagnosis: Callable[..., Report]) -> None:
    slow = {"max_offsets_per_trigger": 2_000}  # so that the burst is more than landing takes
    with lifecycle.running(own_settings("burst").model_copy(update=slow)) as settings:
        sent = list[int]()

        def send(rate: float, first: int, days: int) -> None:
            told = produce_flights(settings, date(2013, 2, first), days, Pace(rate=rate), Faults(), first, quiet=True)
            sent.append(sum(count for (topic, _, _), count in told.records.items() if topic == "flights"))

        send(USUAL, 1, 1)
        eventually(lambda: behind(settings) == 0, 120)
        burst = threading.Thread(target=send, args=(TENFOLD, 2, int(TENFOLD * 60 * MINUTES / 2_700)), daemon=True)
        burst.start()
        lags, memory = list[int](), dict[str, int]()
        while burst.is_alive() or behind(settings):
            lags.append(behind(settings))
            for part in lifecycle.status(settings):
                memory[part.name] = max(memory.get(part.name, 0), part.memory_bytes)
            time.sleep(5)
        burst.join()
        assert landed(settings) == sum(sent)
        assert max(lags) > 2_000, "the burst was no burst"
        assert verify(settings, FLIGHTS).sound
        assert max(memory["landing"], memory["speed"]) < BOUND, memory
        eventually(lambda: ": 0 epochs" in lag(settings)["speed"] and "1 epochs" not in lag(settings)["speed"], 300)
        advised = diagnosis(settings).findings
        assert {finding.code for finding in advised} <= {"LATE_NOWHERE"}, advised
        for finding in advised:
            said = as_advised(settings, finding.next_step, "--approve")
            assert said.code == 0, said.text
        assert not diagnosis(settings).findings
        assert {part.restarts for part in lifecycle.status(settings)} == {0}
