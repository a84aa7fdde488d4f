"""A replay's share of the machine: how long it rests, how large its slices are, what is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from anabranch.change.replay.rate_limit import Pace, Processes, next_size
from anabranch.core.errors import BadInput

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("pace", "slice_", "rest"),
    [
        (Pace(0.5), (4.0, 8.0, 0.0), 4.0),  # both of two cores for 4 s: as long again
        (Pace(0.5), (4.0, 4.0, 0.0), 0.0),  # one of two cores is its share
        (Pace(0.25), (4.0, 8.0, 0.0), 12.0),
        (Pace(1.0), (4.0, 8.0, 0.0), 0.0),
        (Pace(1.0, 10), (4.0, 1.0, 100.0), 6.0),  # 100 s of event time at ten times real time
        (Pace(0.5, 10), (4.0, 8.0, 20.0), 4.0),  # the stricter of the two
        (Pace(1.0, 10), (4.0, 1.0, 0.0), 0.0),
    ],
)
def test_it_rests_until_its_share_is_kept(pace: Pace, slice_: tuple[float, float, float], rest: float) -> None:
    assert pace.rest(2, *slice_) == pytest.approx(rest)


@pytest.mark.parametrize(("share", "of", "cores"), [(0.25, 2, 1), (0.5, 2, 1), (1, 2, 2), (0.25, 16, 4), (0.01, 16, 1)])
def test_it_is_at_no_more_cores_at_once(share: float, of: int, cores: int) -> None:
    assert Pace(share).cores(of) == cores


@pytest.mark.parametrize(
    ("share", "speed", "field"),
    [(0, 0, "share"), (1.01, 0, "share"), (-1, 0, "share"), (float("nan"), 0, "share"), (0.5, -1, "speed"),
     (0.5, float("inf"), "speed"), (0.5, float("nan"), "speed")],
)  # fmt: skip
def test_what_is_no_pace_is_refused_by_field(share: float, speed: float, field: str) -> None:
    with pytest.raises(BadInput) as error:
        Pace(share, speed)
    assert (error.value.code, error.value.fields["field"]) == ("PACE_WRONG", field)


def test_slices_come_to_take_about_five_seconds() -> None:
    size = 1_000
    for _ in range(10):
        size = next_size(size, size / 20_000)  # at 20,000 records a second
    assert size == 100_000
    assert next_size(100_000, 1_000.0) == 25_000, "never less than a quarter at once"
    assert next_size(1, 1_000.0) == 1


_WORKS_AND_LEAVES_A_CHILD = """
import subprocess, sys, time
work = "import time\\nwhile time.process_time() < 0.5: pass\\nprint('worked', flush=True)\\ntime.sleep(60)"
child = subprocess.Popen([sys.executable, "-c", work], stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
time.sleep(60)
"""


def test_a_process_that_ends_unseen_takes_nothing_off_the_time_used() -> None:
    """Spark's Python workers, when their daemon is killed: nobody waits for them."""
    with subprocess.Popen(
        [sys.executable, "-c", _WORKS_AND_LEAVES_A_CHILD], stdout=subprocess.PIPE, text=True
    ) as engine:
        assert engine.stdout is not None
        worker = psutil.Process(int(engine.stdout.readline()))
        java = SimpleNamespace(ProcessHandle=SimpleNamespace(current=lambda: SimpleNamespace(pid=lambda: engine.pid)))
        session: Any = SimpleNamespace(_jvm=SimpleNamespace(java=SimpleNamespace(lang=java)))
        processes = Processes(session, lowest_priority=False)
        began, own = processes.cpu_seconds(), sum(os.times()[:2])
        engine.kill()
        engine.wait()
        worker.kill()
        psutil.wait_procs([worker], timeout=10)
        used = processes.cpu_seconds() - began
        processes.close()
    assert 0 <= used <= sum(os.times()[:2]) - own + 0.1
