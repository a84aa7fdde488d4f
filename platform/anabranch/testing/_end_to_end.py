"""Run a log through both real paths in a temporary home: the stream with restarts and crashes, and a batch rebuild."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, cast

import pyarrow.parquet as pq

from anabranch.compute.batch.rebuild import rebuild
from anabranch.compute.speed.view_stream import catch_up
from anabranch.core.engine.spark import small
from anabranch.core.settings import Settings, load_settings
from anabranch.lake import open_table
from anabranch.lake.layout import VersionRef
from anabranch.lake.log.delta_tables import data_paths
from anabranch.testing import _counterexample
from anabranch.testing._counterexample import Finding, Side, unequal
from anabranch.testing._engine import SmallSessions
from anabranch.testing._evaluator import Case, Evaluator, Rows
from anabranch.testing._fake_landing import Landing, events_of_topic
from anabranch.testing._rows import plain
from anabranch.testing._scenario import Fault, Log
from anabranch.views.model.handle import ViewHandle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from anabranch.contracts.model.topics import Sources
    from anabranch.views import View

_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class TableSnapshot:
    """The rows of the speed table when the stream had caught up with an epoch, and the fault before that."""

    epoch: int
    rows: Rows
    after: str


@contextmanager
def temporary_home() -> Iterator[Settings]:
    with tempfile.TemporaryDirectory(prefix="anabranch-proof-") as folder:
        yield load_settings(home=Path(folder), shuffle_partitions=1)


class PathsJudge:
    """Runs logs through the speed layer and the batch layer, and compares both with the function itself."""

    def __init__(self, spark: SparkSession, view: View, topics: Sources, evaluator: Evaluator) -> None:
        self.view = view
        self.topics = topics
        self.evaluator = evaluator
        self.rows = 0
        """The rows that the streams have written."""
        # The stream opens a new session from the one that it gets; SmallSessions makes that one small too.
        self._for_stream = cast("SparkSession", SmallSessions(spark))
        self._for_batch = small(spark)

    def judge(self, logs: Sequence[Log]) -> list[Finding | None]:
        return [self._judge_one(log) for log in logs]

    def _judge_one(self, log: Log) -> Finding | None:
        with temporary_home() as settings:
            landings = [Landing(settings, topic) for topic in self.topics.each]
            try:
                snapshots = self._run_stream(settings, landings, log)
            except Exception as error:
                return Finding(_counterexample.STREAM, log, error=error)
            self.rows += sum(len(at.rows) for at in snapshots)
            landed = log.landed(self.topics)
            found = self._check_speed(log, landed, snapshots)
            if found or self.view.kappa:
                return found
            return self._check_batch(settings, log, landed, snapshots[-1])

    def _run_stream(self, settings: Settings, landings: Sequence[Landing], log: Log) -> list[TableSnapshot]:
        view, snapshots, after = self._handle(settings), [], "first start"
        for step in log.steps:
            for landing in landings:
                landing.land(*(events_of_topic(epoch, landing.topic) for epoch in step.epochs))
            with with_fault(view, step.then):
                catch_up(self._for_stream, view)
            snapshots.append(TableSnapshot(landings[0].epoch, self._speed_rows(settings), after))
            after = str(step.then)
        if log.steps[-1].then is not Fault.GO_ON:
            catch_up(self._for_stream, view)
            snapshots.append(TableSnapshot(landings[0].epoch, self._speed_rows(settings), after))
        return snapshots

    def _handle(self, settings: Settings) -> ViewHandle:
        return ViewHandle(settings, self.view, self.topics)

    def _speed_rows(self, settings: Settings) -> Rows:
        table = open_table(self._handle(settings).speed_table)
        return _read(data_paths(table) if table else [])

    def _check_speed(
        self, log: Log, landed: list[dict[str, Any]], snapshots: Sequence[TableSnapshot]
    ) -> Finding | None:
        epochs = {s.epoch for s in snapshots}
        cases = {e: Case([r for r in landed if r["epoch"] <= e], late=False) for e in epochs}
        expected = self.evaluator.compute(cases)
        for at in snapshots:
            rows = expected[at.epoch]
            if isinstance(rows, Exception):
                return Finding(_counterexample.FAILS, log, error=rows)
            left = Side(f"the function over the on-time events up to epoch {at.epoch}", rows)
            right = Side(f"the speed table at epoch {at.epoch}; before: {at.after}", at.rows)
            found = unequal(_counterexample.SPEED, self.view, log, left, right, epoch=at.epoch, after=at.after)
            if found:
                return found
        return None

    def _check_batch(
        self, settings: Settings, log: Log, landed: list[dict[str, Any]], last: TableSnapshot
    ) -> Finding | None:
        """Checks the rebuild of all days at a cut somewhere in the log and at its end."""
        epochs = sorted({Random(len(landed)).randint(1, last.epoch), last.epoch})  # noqa: S311
        cases = {e: Case([r for r in landed if r["epoch"] <= e]) for e in epochs}
        expected = self.evaluator.compute(cases)
        for epoch in epochs:
            rows = expected[epoch]
            if isinstance(rows, Exception):
                return Finding(_counterexample.FAILS, log, error=rows)
            try:
                built = self._rebuild(settings, landed, epoch)
            except Exception as error:
                return Finding(_counterexample.REBUILD, log, error=error, fields={"epoch": epoch})
            left = Side(f"the function over all events up to epoch {epoch}", rows)
            found = unequal(
                _counterexample.BATCH,
                self.view,
                log,
                left,
                Side(f"the batch rebuild at epoch {epoch}", built),
                epoch=epoch,
            )
            if found:
                return found
        if any(row["late"] for row in landed):
            return None
        left, right = Side("the speed table", last.rows), Side("the batch rebuild", built)
        return unequal(_counterexample.PATHS, self.view, log, left, right)

    def _rebuild(self, settings: Settings, landed: list[dict[str, Any]], epoch: int) -> Rows:
        days = {row["event_date"] for row in landed}
        back, ahead = -(-self.view.lookback // _DAY), -(-self.view.lookahead // _DAY)
        # With lookahead an event affects earlier days than its own, with lookback later ones.
        days = {d + n * _DAY for d in days for n in range(-ahead - 1, back + 2)}
        epochs = {topic.name: epoch for topic in self.topics.each}
        view = self._handle(settings)
        build = rebuild(self._for_batch, view, sorted(days), f"proof-{epoch}", epochs)
        return _read([Path(view.batch_table) / file.path for file in build.files])


def _read(files: Sequence[Path]) -> Rows:
    """Reads the Parquet files directly: a process that has used ``to_pyarrow_dataset`` sometimes aborts at exit."""
    return [row for file in files for row in plain(pq.read_table(file, partitioning=None))]


@contextmanager
def with_fault(ref: VersionRef, then: Fault) -> Iterator[None]:
    """Runs the stream in the block; then produces what a kill between two commits leaves, a lost disk, or a restored
    backup."""
    checkpoint = ref.speed_checkpoint
    savepoint = checkpoint.with_name(f"{checkpoint.name}-savepoint")
    if then is Fault.RETURN and checkpoint.exists():
        shutil.copytree(checkpoint, savepoint)
    yield
    if then is Fault.LOSE or savepoint.exists():
        shutil.rmtree(checkpoint)
    if savepoint.exists():
        savepoint.rename(checkpoint)
    if then is Fault.REPEAT:
        commits = checkpoint / "commits"
        numbers = [int(file.name) for file in commits.iterdir() if file.name.isdecimal()]
        if numbers:
            (commits / str(max(numbers))).unlink()
            (commits / f".{max(numbers)}.crc").unlink(missing_ok=True)
