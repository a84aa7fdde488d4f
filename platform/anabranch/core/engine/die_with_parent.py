"""Kills a Spark engine when the Airflow task that submitted it dies.

Without this, a killed Airflow worker leaves its task running, the task leaves spark-submit running, and the engine goes
on for minutes during the next try of the same task.
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
"""The environment variable with the process ids of the owners: the engine ends when one of them ends."""
log = logging.getLogger(__name__)


def mark_as_owner() -> None:
    """Make this process and its parent owners of the engines that it starts, if those call ``end_with_owners``. Called
    in an Airflow task, whose parent process reports the task's result."""
    os.environ[OWNERS] = f"{os.getpid()},{os.getppid()}"


def end_with_owners() -> None:
    """Kill the Spark JVM, and this process, which is its driver, when one of the owners ends. Does nothing when run
    manually: there are no owners then."""
    owners = [int(pid) for pid in os.environ.pop(OWNERS, "").split(",") if pid]
    if owners:
        threading.Thread(target=_watch, args=(owners, os.getppid()), name="owners", daemon=True).start()


def _watch(owners: list[int], engine: int) -> None:
    with suppress(ProcessLookupError):
        handles = [os.pidfd_open(pid) for pid in owners]
        select.select(handles, [], [])
    log.error("the process that submitted this job has ended: the job stops, and the next try starts it again")
    if os.getppid() == engine:  # otherwise the engine has already ended
        os.kill(engine, signal.SIGKILL)
    os._exit(1)
