"""The workers of Airflow's LocalExecutor: processes that take tasks from one queue, whose lock one of them holds while
all wait. One that is killed there takes the lock along: the scheduler looks well, and no task starts any more."""

from __future__ import annotations

from contextlib import suppress

import psutil

_TITLE = "airflow worker -- LocalExecutor"


class Workers:
    """Remembers the workers of one scheduler; they never end by themselves."""

    def __init__(self) -> None:
        self._scheduler, self._known = 0, frozenset[int]()

    def lost(self, scheduler: int) -> str:
        """What is wrong with the scheduler that runs as this process, in words; empty where nothing is."""
        known = self._known if scheduler == self._scheduler else frozenset()
        now = _workers_of(scheduler)
        self._scheduler, self._known = scheduler, known | now
        gone = known - now
        return f"worker {min(gone)} was killed, perhaps with the lock of the queue of tasks" if gone else ""


def _workers_of(scheduler: int) -> frozenset[int]:
    found = set[int]()
    with suppress(psutil.NoSuchProcess):
        for child in psutil.Process(scheduler).children():
            with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
                if " ".join(child.cmdline()).startswith(_TITLE):
                    found.add(child.pid)
    return frozenset(found)
