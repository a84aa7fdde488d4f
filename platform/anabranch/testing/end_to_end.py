"""A log through both real paths, in a home of its own: stream with restarts and crashes, and batch rebuild."""

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
from anabranch.core.settings import Settings, load_settings
from anabranch.core.spark import small
from anabranch.lake.commits import open_table
from anabranch.lake.layout import batch_table, speed_checkpoint, speed_table
from anabranch.testing import counterexample
from anabranch.testing.counterexample import Finding, Side, unequal
from anabranch.testing.engine import SmallSessions
from anabranch.testing.evaluator import Case, Computer, Rows
from anabranch.testing.fake_landing import Landing, carried
from anabranch.testing.rows import plain
from anabranch.testing.scenario import Fault, Log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from anabranch.contracts import Sources
    from anabranch.views import View

_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Seen:
    """What the speed table held when the stream had caught up with an epoch, and how it had come there."""

    epoch: int
    rows: Rows
    after: str


@contextmanager
def home() -> Iterator[Settings]:
    with tempfile.TemporaryDirectory(prefix="anabranch-proof-") as folder:
        yield load_settings(home=Path(folder), shuffle_partitions=1)


class PathsJudge:
    """Runs logs through the speed layer and the batch layer and holds both to the function itself."""

    def __init__(self, spark: SparkSession, view: View, topics: Sources, computer: Computer) -> None:
        self.view = view
        self.topics = topics
        self.computer = computer
        # The runner opens a session of its own from the one it is given; so that one is small, too.
        self._for_stream = cast("SparkSession", SmallSessions(spark))
        self._for_batch = small(spark)

    def judge(self, logs: Sequence[Log]) -> list[Finding | None]:
        return [self._one(log) for log in logs]

    def _one(self, log: Log) -> Finding | None:
        with home() as settings:
            landings = [Landing(settings, topic) for topic in self.topics.each]
            try:
                seen = self._streamed(settings, landings, log)
            except Exception as error:
                return Finding(counterexample.STREAM, log, error=error)
            landed = log.landed(self.topics)
            found = self._speed(log, landed, seen)
            if found or self.view.kappa:
                return found
            return self._batch(settings, log, landed, seen[-1])

    def _streamed(self, settings: Settings, landings: Sequence[Landing], log: Log) -> list[Seen]:
        seen, after = [], "first start"
        for step in log.steps:
            for landing in landings:
                landing.land(*(carried(epoch, landing.topic) for epoch in step.epochs))
            with _disturbed(settings, self.view, step.then):
                catch_up(self._for_stream, settings, self.view, self.topics)
            seen.append(Seen(landings[0].epoch, self._stored(settings), after))
            after = str(step.then)
        if log.steps[-1].then is not Fault.GO_ON:
            catch_up(self._for_stream, settings, self.view, self.topics)
            seen.append(Seen(landings[0].epoch, self._stored(settings), after))
        return seen

    def _stored(self, settings: Settings) -> Rows:
        uri = speed_table(settings, self.view.name, self.view.version)
        table = open_table(uri)
        return _read([Path(file.removeprefix("file://")) for file in table.file_uris()] if table else [])

    def _speed(self, log: Log, landed: list[dict[str, Any]], seen: Sequence[Seen]) -> Finding | None:
        epochs = {s.epoch for s in seen}
        cases = {e: Case([r for r in landed if r["epoch"] <= e], late=False) for e in epochs}
        expected = self.computer.compute(cases)
        for at in seen:
            rows = expected[at.epoch]
            if isinstance(rows, Exception):
                return Finding(counterexample.FAILS, log, error=rows)
            left = Side(f"the function over the on-time events up to epoch {at.epoch}", rows)
            right = Side(f"the speed table at epoch {at.epoch}; before: {at.after}", at.rows)
            found = unequal(counterexample.SPEED, self.view, log, left, right, epoch=at.epoch, after=at.after)
            if found:
                return found
        return None

    def _batch(self, settings: Settings, log: Log, landed: list[dict[str, Any]], last: Seen) -> Finding | None:
        """The rebuild of all days at a cut somewhere in the log, and at its end."""
        epochs = sorted({Random(len(landed)).randint(1, last.epoch), last.epoch})  # noqa: S311
        cases = {e: Case([r for r in landed if r["epoch"] <= e]) for e in epochs}
        expected = self.computer.compute(cases)
        for epoch in epochs:
            rows = expected[epoch]
            if isinstance(rows, Exception):
                return Finding(counterexample.FAILS, log, error=rows)
            try:
                built = self._rebuilt(settings, landed, epoch)
            except Exception as error:
                return Finding(counterexample.REBUILD, log, error=error, fields={"epoch": epoch})
            left = Side(f"the function over all events up to epoch {epoch}", rows)
            found = unequal(
                counterexample.BATCH,
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
        return unequal(counterexample.PATHS, self.view, log, left, right)

    def _rebuilt(self, settings: Settings, landed: list[dict[str, Any]], epoch: int) -> Rows:
        days = {row["event_date"] for row in landed}
        back, ahead = -(-self.view.lookback // _DAY), -(-self.view.lookahead // _DAY)
        # An event makes rows of days before its own where they look ahead, and of days behind it where they look back.
        days = {d + n * _DAY for d in days for n in range(-ahead - 1, back + 2)}
        epochs = {topic.name: epoch for topic in self.topics.each}
        build = rebuild(self._for_batch, settings, self.view, self.topics, sorted(days), f"proof-{epoch}", epochs)
        folder = Path(batch_table(settings, self.view.name, self.view.version))
        return _read([folder / file.path for file in build.files])


def _read(files: Sequence[Path]) -> Rows:
    """Through Parquet itself: a process that has used ``to_pyarrow_dataset`` sometimes aborts when it exits."""
    return [row for file in files for row in plain(pq.read_table(file, partitioning=None))]


@contextmanager
def _disturbed(settings: Settings, view: View, then: Fault) -> Iterator[None]:
    """Run the stream; then what a kill between two commits leaves, a lost disk, or a backup that was put back."""
    checkpoint = speed_checkpoint(settings, view.name, view.version)
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
