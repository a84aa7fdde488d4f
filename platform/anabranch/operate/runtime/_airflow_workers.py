"""Detects killed workers of Airflow's LocalExecutor.

The workers take tasks from one queue, and a waiting worker holds the queue's lock. If it is killed then, the lock is
never released: the scheduler looks healthy, but no task starts any more."""

from __future__ import annotations

from contextlib import suppress

import psutil

_TITLE = "airflow worker -- LocalExecutor"


class Workers:
    """Remembers the workers of one scheduler. A worker never ends by itself."""

    def __init__(self) -> None:
        self._scheduler, self._known = 0, frozenset[int]()

    def lost(self, scheduler: int) -> str:
        """Returns why the scheduler with this pid is unhealthy; "" if it isn't."""
        known = self._known if scheduler == self._scheduler else frozenset()
        now = _workers_of(scheduler)
        self._scheduler, self._known = scheduler, known | now
        gone = known - now
        return f"worker {min(gone)} was killed and may have held the lock of the task queue" if gone else ""


def _workers_of(scheduler: int) -> frozenset[int]:
    found = set[int]()
    with suppress(psutil.NoSuchProcess):
        for child in psutil.Process(scheduler).children():
            with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
                if " ".join(child.cmdline()).startswith(_TITLE):
                    found.add(child.pid)
    return frozenset(found)
