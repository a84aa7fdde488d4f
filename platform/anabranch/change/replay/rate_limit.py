"""How fast a replay may go: its share of the cores, its multiple of real time, and what it has used of both."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil

from anabranch.change.replay.cpu_throttle import Throttle
from anabranch.core.errors import BadInput

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_SHARE = 0.1
_LOWEST = 19
_SLICE_SECONDS = 5.0
"""About how long a slice of landing should take: what it costs to begin one is small beside it, and a change of pace
or a cancellation isn't waited for long."""
_MOST_RECORDS = 2_000_000


@dataclass(frozen=True, slots=True)
class Pace:
    """``share``: of all cores of this machine, over some slices, above 0 up to 1. ``speed``: the most seconds of event
    time in a second; 0 for as fast as it goes. BadInput names the ``field`` that is wrong."""

    share: float = DEFAULT_SHARE
    speed: float = 0.0

    def __post_init__(self) -> None:
        for field, right, form in (
            ("share", 0.01 <= self.share <= 1, "a part of all cores is needed, from 0.01 to 1"),
            ("speed", 0 <= self.speed < 1e12, "a multiple of real time is needed, or 0 for no limit"),
        ):
            if not right:
                value = getattr(self, field)
                raise BadInput(
                    "PACE_WRONG",
                    f"parameter {field}: {value} is none: {form}",
                    state="the replay goes on as it did",
                    next_step="write 0.25" if field == "share" else "write 100",
                    field=field,
                )

    def cores(self, of: int) -> int:
        """How many of so many cores it may be at, at once."""
        return max(1, min(of, round(self.share * of)))

    def running(self, of: int) -> float:
        """Which share of the time it may run on these cores, to be at its share of so many."""
        return min(1.0, self.share * of / self.cores(of))

    def rest(self, cores: int, seconds: float, cpu_seconds: float, event_seconds: float) -> float:
        """How many seconds to rest behind a slice that took ``seconds`` and ``cpu_seconds`` of all cores together, for
        ``event_seconds`` of event time."""
        due = cpu_seconds / (self.share * cores)
        if self.speed:
            due = max(due, event_seconds / self.speed)
        return max(0.0, due - seconds)


def next_size(records: int, seconds: float) -> int:
    """How many records the next slice should hold, when one of ``records`` took ``seconds``: at most four times more,
    never less than a quarter."""
    factor = min(4.0, max(0.25, _SLICE_SECONDS / max(seconds, 0.01)))
    return max(1, min(_MOST_RECORDS, round(records * factor)))


def give_way() -> None:
    """Give this process the lowest priority, and with it all that it starts from now on: the engine takes seconds of
    both cores to start."""
    os.setpriority(os.PRIO_PROCESS, 0, _LOWEST)


class Processes:
    """This process, its engine, and all that they have started."""

    def __init__(self, spark: SparkSession, *, lowest_priority: bool) -> None:
        jvm = spark._jvm
        assert jvm is not None  # noqa: S101 - a session has one
        self._lowest = lowest_priority
        self._cores = os.sched_getaffinity(0) if lowest_priority else set()
        engine = int(jvm.java.lang.ProcessHandle.current().pid())
        self._roots = (os.getpid(), engine)
        self._throttle = Throttle(engine)

    def yield_to_others(self, pace: Pace) -> None:
        """Give every thread the lowest priority, if asked to, and as many cores as ``pace`` says, for as much of each
        tenth of a second: whatever else wants the machine gets it first, and meets no bursts."""
        if not self._lowest:
            return
        self._throttle.set(pace.running(len(self._cores)))
        cores = sorted(self._cores)[-pace.cores(len(self._cores)) :]
        for process in self._each():
            with contextlib.suppress(psutil.Error, OSError):
                for thread in process.threads():
                    os.setpriority(os.PRIO_PROCESS, thread.id, _LOWEST)
                    os.sched_setaffinity(thread.id, cores)

    def close(self) -> None:
        """What has been held to a share runs freely again."""
        self._throttle.close()

    def cpu_seconds(self) -> float:
        """What they have used of all cores so far, those that have ended included."""
        total = 0.0
        for process in self._each():
            with contextlib.suppress(psutil.Error):
                times = process.cpu_times()
                total += times.user + times.system + times.children_user + times.children_system
        return total

    def _each(self) -> Iterator[psutil.Process]:
        seen: set[int] = set()
        for pid in self._roots:
            with contextlib.suppress(psutil.Error):
                root = psutil.Process(pid)
                for process in (root, *root.children(recursive=True)):
                    if process.pid not in seen:
                        seen.add(process.pid)
                        yield process
