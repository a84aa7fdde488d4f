"""What the engine has done for one query, by its tasks, and in all. For whoever asks whether it still does anything."""

from __future__ import annotations

import faulthandler
import logging
import os
import signal
import time
from collections.abc import Hashable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Never

import psutil
from anabranch.core.errors import AnabranchError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_COUNTS: Final = ("numCompleteTasks", "numFailedTasks")
"""Of a stage. Rows that a task has read are told at its end only (measured: the store holds 0 while it runs)."""
_DUMP_SECONDS: Final = 1.0
log = logging.getLogger(__name__)


def done_for(spark: SparkSession, run_id: str) -> Hashable:
    """Changes whenever a job of the query's run begins or ends, or a task of it ends.

    Where its tasks wait because those of others have all cores, it changes with theirs. Not promised: an answer, when
    the engine has none.
    """
    tracker = spark.sparkContext.statusTracker()
    jobs = tracker.getJobIdsForGroup(run_id)
    active = tracker.getActiveStageIds()
    told = [tracker.getJobInfo(job) for job in set(jobs) & set(tracker.getActiveJobsIds())]
    own = {stage for job in told if job is not None for stage in job.stageIds} & set(active)
    found = [tracker.getStageInfo(stage) for stage in own]
    waits = bool(own) and not any(stage.numActiveTasks for stage in found if stage is not None)
    return (len(jobs), max(jobs, default=-1), *_counts(spark, active if waits else own))


def _counts(spark: SparkSession, stages: Iterable[int]) -> Iterable[Hashable]:
    from py4j.protocol import Py4JJavaError

    store: Any = spark.sparkContext._jsc.sc().statusStore()
    for stage in sorted(stages):
        try:
            data = store.lastStageAttempt(stage)
        except Py4JJavaError:  # it is over and forgotten
            continue
        yield (stage, *(int(getattr(data, count)()) for count in _COUNTS))


def cpu_seconds() -> float:
    """Of this process and those below it: its engine, and the engine's Python workers."""
    used = 0.0
    for each in [here := psutil.Process(), *here.children(recursive=True)]:
        with suppress(psutil.NoSuchProcess):
            times = each.cpu_times()
            used += times.user + times.system
    return used


def end_process(spark: SparkSession, reason: AnabranchError) -> Never:
    """Log ``reason`` and the stacks of all threads, the engine's too; then kill the engine and end this process.

    Called by a thread beside: whatever hangs isn't asked, nor waited for.
    """
    log.error("%s", reason)
    faulthandler.dump_traceback(all_threads=True)
    engine = getattr(spark.sparkContext._gateway, "proc", None)  # none, where the engine has started this process
    if engine is not None:
        engine.send_signal(signal.SIGQUIT)
        time.sleep(_DUMP_SECONDS)
        engine.kill()
    os._exit(1)
