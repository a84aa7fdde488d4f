"""Watches a job with a Spark engine, and writes down how far it is."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.change.run_progress import REBUILD, RunProgress, delete_progress, write_progress
from anabranch.core.settings import Settings
from anabranch.lake.files import BUILDS
from anabranch.lake.layout import VersionRef
from anabranch.views.model.definition import PARTITION_DATE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_EVERY_SECONDS = 2.0
log = logging.getLogger(__name__)


class Watch:
    """The progress of one job, which a thread writes every two seconds. A failure costs only what people see."""

    def __init__(self, spark: SparkSession, settings: Settings, progress: RunProgress, days: Sequence[date]) -> None:
        self._spark, self._settings, self._progress = spark, settings, progress
        self._lock = threading.Lock()  # what was seen later is written later
        self._days = {day.isoformat() for day in days}
        self._builds = Path(VersionRef(settings, progress.view, progress.version).batch_table) / BUILDS

    def step(self, name: str) -> None:
        """Say which step begins now."""
        self._progress = replace(self._progress, step=name)
        self.write()

    def write(self) -> None:
        try:
            with self._lock:
                tasks, all_tasks, running = self._tasks()
                written = max(0, len(self._begun()) - running) if self._progress.step == REBUILD else len(self._days)
                now = replace(self._progress, written=written, tasks=tasks, all_tasks=all_tasks, updated=time.time())
                write_progress(self._settings, now)
        except Exception as error:  # also what the engine answers while it stops
            log.warning("the progress was not written: %s", error)

    def _tasks(self) -> tuple[int, int, int]:
        """How many tasks of the stages that run now have ended, how many there are, and how many run."""
        tracker = self._spark.sparkContext.statusTracker()
        stages = [stage for each in tracker.getActiveStageIds() if (stage := tracker.getStageInfo(each)) is not None]
        ended, every = sum(stage.numCompletedTasks for stage in stages), sum(stage.numTasks for stage in stages)
        return ended, every, sum(stage.numActiveTasks for stage in stages)

    def _begun(self) -> set[str]:
        """The days of which a file was begun: each running task writes one, and has ended its earlier ones."""
        folders = self._builds.glob(f"{self._progress.run}-*")
        found = (path.name for folder in folders for path in folder.rglob(f"{PARTITION_DATE}=*"))
        return {name.partition("=")[2] for name in found} & self._days


@contextmanager
def watched(spark: SparkSession, settings: Settings, progress: RunProgress, days: Sequence[date]) -> Iterator[Watch]:
    """Watch what the block does, until it ends."""
    watch, ended = Watch(spark, settings, progress, days), threading.Event()

    def write() -> None:
        while not ended.wait(_EVERY_SECONDS):
            watch.write()

    thread = threading.Thread(target=write, name="anabranch-progress", daemon=True)
    watch.write()
    thread.start()
    try:
        yield watch
    finally:
        ended.set()
        thread.join(_EVERY_SECONDS)
        delete_progress(settings, progress)
