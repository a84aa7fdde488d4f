"""An engine that ends with the task that has submitted it.

A worker of Airflow that is killed leaves its task, that leaves spark-submit, and that would go on for minutes, beside
the next try of the same task.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import threading
from contextlib import suppress
from typing import Final

OWNERS: Final = "ANABRANCH_OWNERS"
"""The variable with the processes that an engine ends with, by their numbers."""
log = logging.getLogger(__name__)


def mark_as_owner() -> None:
    """What this process starts from now on ends with it, and with what has started it, if it calls ``end_with_owners``:
    for a task of Airflow, whose parent reports what becomes of it."""
    os.environ[OWNERS] = f"{os.getpid()},{os.getppid()}"


def end_with_owners() -> None:
    """Kill the engine, and this process, which is its driver's, when one of the owners is gone. By hand there are
    none."""
    owners = [int(pid) for pid in os.environ.pop(OWNERS, "").split(",") if pid]
    if owners:
        threading.Thread(target=_watch, args=(owners, os.getppid()), name="owners", daemon=True).start()


def _watch(owners: list[int], engine: int) -> None:
    with suppress(ProcessLookupError):
        held = [os.pidfd_open(pid) for pid in owners]
        select.select(held, [], [])
    log.error("who has submitted this is gone: its next try begins anew")
    if os.getppid() == engine:  # else it has ended already
        os.kill(engine, signal.SIGKILL)
    os._exit(1)
