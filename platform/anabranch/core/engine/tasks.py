"""Signs of progress of the Spark engine: tasks done for one query, and CPU time used. The liveness check reads them."""

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
"""Counters of a stage. Rows read by a task are reported only when it ends (measured: the store holds 0 before)."""
_DUMP_SECONDS: Final = 1.0
log = logging.getLogger(__name__)


def progress_of(spark: SparkSession, run_id: str) -> Hashable:
    """A value that changes whenever a job of the query's run starts or ends, or one of its tasks ends.

    While its tasks wait because other queries use all cores, it changes with the tasks of those. That the engine
    forgets older jobs changes nothing. Not guaranteed to return: it blocks when the engine doesn't answer.
    """
    tracker = spark.sparkContext.statusTracker()
    jobs = tracker.getJobIdsForGroup(run_id)
    active = tracker.getActiveStageIds()
    infos = [tracker.getJobInfo(job) for job in set(jobs) & set(tracker.getActiveJobsIds())]
    own = {stage for job in infos if job is not None for stage in job.stageIds} & set(active)
    stages = [tracker.getStageInfo(stage) for stage in own]
    waits = bool(own) and not any(stage.numActiveTasks for stage in stages if stage is not None)
    return (max(jobs, default=-1), *_counts(spark, active if waits else own))


def _counts(spark: SparkSession, stages: Iterable[int]) -> Iterable[Hashable]:
    from py4j.protocol import Py4JJavaError

    store: Any = spark.sparkContext._jsc.sc().statusStore()
    for stage in sorted(stages):
        try:
            data = store.lastStageAttempt(stage)
        except Py4JJavaError:  # the stage has ended and was dropped from the store
            continue
        yield (stage, *(int(getattr(data, count)()) for count in _COUNTS))


def cpu_seconds() -> float:
    """CPU time of this process and its children: its engine, and the engine's Python workers."""
    used = 0.0
    for process in [here := psutil.Process(), *here.children(recursive=True)]:
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            used += times.user + times.system
    return used


def end_process(spark: SparkSession, reason: AnabranchError) -> Never:
    """Log ``reason`` and the stacks of all threads, the JVM's too; then kill the engine and end this process.

    Called from a separate thread: it neither calls nor waits for anything that may hang.
    """
    log.error("%s", reason)
    faulthandler.dump_traceback(all_threads=True)
    engine = getattr(spark.sparkContext._gateway, "proc", None)  # None if the engine started this process
    if engine is not None:
        engine.send_signal(signal.SIGQUIT)
        time.sleep(_DUMP_SECONDS)
        engine.kill()
    os._exit(1)
