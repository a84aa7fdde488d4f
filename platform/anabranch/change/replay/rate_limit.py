"""Rate limit of a replay: its share of the cores, its speed as a multiple of real time, and its measured use of CPU."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil

from anabranch.change.replay._cpu_throttle import Throttle
from anabranch.core.errors import BadInput

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_SHARE = 0.1
_LOWEST_PRIORITY = 19
_SLICE_SECONDS = 5.0
"""About how long a slice of landing should take: long compared with the cost of starting one, and short enough for a
change of pace or a cancellation to take effect soon."""
_MAX_RECORDS = 2_000_000


@dataclass(frozen=True, slots=True)
class Pace:
    """``share``: the share of all cores of this machine, averaged over some slices, from 0.01 to 1. ``speed``: the
    maximum seconds of event time per second; 0 for no limit. Raises BadInput with the ``field`` that is wrong."""

    share: float = DEFAULT_SHARE
    speed: float = 0.0

    def __post_init__(self) -> None:
        for field, valid, form in (
            ("share", 0.01 <= self.share <= 1, "a share of all cores is required, from 0.01 to 1"),
            ("speed", 0 <= self.speed < 1e12, "a multiple of real time is required, or 0 for no limit"),
        ):
            if not valid:
                value = getattr(self, field)
                raise BadInput(
                    "PACE_WRONG",
                    f"parameter {field}: {value} is not valid: {form}",
                    state="the pace of the replay was not changed",
                    next_step="write 0.25" if field == "share" else "write 100",
                    field=field,
                )

    def cores(self, of: int) -> int:
        """Return how many of ``of`` cores it may use at once."""
        return max(1, min(of, round(self.share * of)))

    def running(self, of: int) -> float:
        """Return the share of the time it may run on ``cores(of)`` cores, to use its share of ``of`` cores."""
        return min(1.0, self.share * of / self.cores(of))

    def rest(self, cores: int, seconds: float, cpu_seconds: float, event_seconds: float) -> float:
        """Return the seconds to pause after a slice that took ``seconds``, ``cpu_seconds`` over all cores, and advanced
        event time by ``event_seconds``."""
        due = cpu_seconds / (self.share * cores)
        if self.speed:
            due = max(due, event_seconds / self.speed)
        return max(0.0, due - seconds)


def next_size(records: int, seconds: float) -> int:
    """Return the size of the next slice in records, after one of ``records`` took ``seconds``: at most four times as
    many, at least a quarter."""
    factor = min(4.0, max(0.25, _SLICE_SECONDS / max(seconds, 0.01)))
    return max(1, min(_MAX_RECORDS, round(records * factor)))


def lower_own_priority() -> None:
    """Give this process, and all that it starts from now on, the lowest priority. Spark uses all cores for some seconds
    while it starts."""
    os.setpriority(os.PRIO_PROCESS, 0, _LOWEST_PRIORITY)


class Processes:
    """This process, its Spark JVM, and their child processes."""

    def __init__(self, spark: SparkSession, *, lowest_priority: bool) -> None:
        jvm = spark._jvm
        assert jvm is not None  # noqa: S101 - a session has one
        self._lowest_priority = lowest_priority
        self._cores = os.sched_getaffinity(0) if lowest_priority else set()
        jvm_pid = int(jvm.java.lang.ProcessHandle.current().pid())
        self._roots = (os.getpid(), jvm_pid)
        self._throttle = Throttle(jvm_pid)
        self._used = dict[psutil.Process, float]()

    def yield_to_others(self, pace: Pace) -> None:
        """Give every thread the lowest priority, the cores that ``pace`` allows, and its share of each tenth of a
        second, so that bursts don't slow other processes. Does nothing without ``lowest_priority``."""
        if not self._lowest_priority:
            return
        self._throttle.set(pace.running(len(self._cores)))
        cores = sorted(self._cores)[-pace.cores(len(self._cores)) :]
        for process in self._each():
            with contextlib.suppress(psutil.Error, OSError):
                for thread in process.threads():
                    os.setpriority(os.PRIO_PROCESS, thread.id, _LOWEST_PRIORITY)
                    os.sched_setaffinity(thread.id, cores)

    def close(self) -> None:
        """End the throttling."""
        self._throttle.close()

    def cpu_seconds(self) -> float:
        """Return the CPU time that they have used so far: it never falls. Of a child process that has ended it has what
        it had used at the last call; what its parent says of it would be missing where nobody waited for it."""
        for process in self._each():
            with contextlib.suppress(psutil.Error):
                times = process.cpu_times()
                self._used[process] = times.user + times.system
        return sum(self._used.values())

    def _each(self) -> Iterator[psutil.Process]:
        seen: set[int] = set()
        for pid in self._roots:
            with contextlib.suppress(psutil.Error):
                root = psutil.Process(pid)
                for process in (root, *root.children(recursive=True)):
                    if process.pid not in seen:
                        seen.add(process.pid)
                        yield process
