"""The foreachBatch sink of a view: exactly one commit per micro-batch, whose metadata names the batch and its cut."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from anabranch.compute.speed import _dropped_rows
from anabranch.compute.speed._cut_resolver import BatchCut, CutResolver, batch_end
from anabranch.compute.speed._failing_event import FailingEvent
from anabranch.compute.speed.table import BatchAction, SpeedTable
from anabranch.core.engine.liveness import Batches
from anabranch.core.errors import AnabranchError, BrokenState
from anabranch.lake import CommitMetadata
from anabranch.lake.cut import Cut
from anabranch.lake.streams.batch_failures import BatchFailure
from anabranch.lake.streams.stream_checkpoint import checkpoint_id
from anabranch.views.model.definition import changed_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


FindFailingEvent = Callable[[Cut, Cut], FailingEvent | None]
"""Returns the event between two cuts for which the view's function fails, or None."""
log = logging.getLogger(__name__)


def no_failing_event(_: Cut, __: Cut) -> FailingEvent | None:
    return None


@dataclass(frozen=True, slots=True)
class Batch:
    """One micro-batch: its number in its checkpoint, its unique key in commit metadata, its cut and watermark."""

    number: int
    key: str
    cut: Cut
    watermark_ms: int | None


class Sink:
    """Called by Spark once per micro-batch, and again with the same batch after a crash.

    A batch that is already in the table is logged and skipped. ``failure`` keeps the Python error that stopped the
    stream, because Spark passes only its text on.
    """

    def __init__(
        self,
        spark: SparkSession,
        table: SpeedTable,
        landing: CutResolver,
        checkpoint: Path,
        small_rows: int,
        *,
        find_failing_event: FindFailingEvent = no_failing_event,
    ) -> None:
        self.table = table
        self.failure: BaseException | None = None
        self.cut = table.newest().note.cut
        self.committed_at_ms: int | None = None
        self.seconds: dict[str, float] = {}
        self.batches = Batches()
        self._spark = spark
        self._landing = landing
        self.checkpoint = checkpoint
        self._small_rows = small_rows
        self._find_failing_event = find_failing_event
        self._between: tuple[Cut, Cut] | None = None

    @cached_property
    def _checkpoint_id(self) -> str:
        return checkpoint_id(self.checkpoint)

    def __call__(self, frame: DataFrame, batch: int) -> None:
        with self.batches.processing(batch):
            self._run(frame, batch)

    def _run(self, frame: DataFrame, batch: int) -> None:
        try:
            self._commit(frame, batch)
        except AnabranchError as error:
            self.failure = error
            raise
        except BaseException as error:
            self.failure = self._failure(batch, error)
            raise self.failure from error

    def _failure(self, batch: int, error: BaseException) -> BrokenState:
        """An error of the function, of the engine, of the disk, or a signal: it says nothing of the commit, so the
        table is read."""
        view, version, again = self.table.view, None, "the stream is retried automatically"
        failed = BatchFailure(f"{view.origin}: {view.name} v{view.version}", batch, error)
        if self._between is not None:  # before that nothing was to be committed
            try:
                version = self.table.version_with(self._checkpoint_id, batch, self._between[1])
            except Exception as unread:
                again += ", and commits the batch if it isn't in"
                return failed.unknown("this batch is in the speed table", unread, again, view=view.name)
        if version is not None:
            state = f"this batch is in the speed table, at its version {version}"
            again += ", and this batch isn't committed twice"
            return failed.behind_commit(state, again, view=view.name, version=version)
        next_step, event = f"fix the cause; {again} and continues with this batch", self._failing_event()
        if "STATE_STORE" in str(error):
            builds = "its state can't be read; the stream then builds the table again from landing"
            next_step = f"delete {self.checkpoint}: {builds}"
        return failed.before_commit(
            "nothing of this batch was committed; the speed table ends at the batch before",
            next_step,
            f"; it fails for {event} alone" if event is not None else "",
            view=view.name,
            event=event,
        )

    def _failing_event(self) -> FailingEvent | None:
        if self._between is None:
            return None
        try:
            return self._find_failing_event(*self._between)
        except Exception as error:  # the search must not hide the batch's own error
            log.warning("%s: the search for the failing event failed: %s", self.table.view.writer, error)
            return None

    def _commit(self, frame: DataFrame, batch: int) -> None:
        started = time.perf_counter()
        self._between = None
        end = batch_end(self.checkpoint, batch)
        covered = self._landing.resolve(end, batch_end(self.checkpoint, batch - 1) if batch else None)
        action = self.table.action_for(self._checkpoint_id, batch, covered.cut)
        self._between = (Cut() if action is BatchAction.REFRESH else self.cut, covered.cut)
        decided = time.perf_counter()
        if action is BatchAction.DONE:
            # Spark writes the state of a repeated batch only if every partition of the frame is read.
            frame.write.format("noop").mode("overwrite").save()
        else:
            key = f"{self._checkpoint_id}:{batch}"
            watermark_ms = end.watermark_ms if action is BatchAction.REFRESH else self._not_earlier(end.watermark_ms)
            self._write(action, covered, frame, Batch(batch, key, covered.cut, watermark_ms))
        self.cut, self.committed_at_ms = covered.cut, int(time.time() * 1000)
        self.seconds |= {"decide": decided - started, "total": time.perf_counter() - started}

    def _not_earlier(self, watermark_ms: int | None) -> int | None:
        """The watermark, but not an earlier one than the table's: a restored checkpoint starts with an older one, and
        rows that were closed stay closed."""
        if not self.table.view.closed_only:
            return watermark_ms
        before = int(self.table.pinned().note.extra.get("watermark_ms") or 0)
        return max(watermark_ms or 0, before) or None

    def _write(self, action: BatchAction, covered: BatchCut, frame: DataFrame, batch: Batch) -> None:
        # In a closed_only view a few events can advance the watermark past many buffered ones.
        rows = None if self.table.view.closed_only else covered.rows
        small = rows is not None and rows <= self._small_rows
        write = self._refresh if action is BatchAction.REFRESH else self._merge_small if small else self._merge_large
        write(frame, batch)

    def _refresh(self, frame: DataFrame, batch: Batch) -> None:
        files = self.table.stage(self._with_epoch(frame, batch), batch.number)
        self._check_drops(batch)
        self.table.refresh(files, self._note(batch, sum(file.rows for file in files), refreshed=True))

    def _merge_small(self, frame: DataFrame, batch: Batch) -> None:
        started = time.perf_counter()
        rows = frame.toArrow()
        self.seconds["compute"] = time.perf_counter() - started
        self._check_drops(batch)
        # Added here and not in Spark: there the epoch would be a new literal, so that every micro-batch would be
        # compiled again.
        note = self._note(batch, rows.num_rows)
        for column, epoch in _epochs(batch.cut).items():
            rows = rows.append_column(column, pa.array([epoch] * rows.num_rows, pa.int64()))
        self.table.merge_small(rows, batch.number, note)

    def _merge_large(self, frame: DataFrame, batch: Batch) -> None:
        """Many events may still change few rows; those are merged by delta-rs."""
        frame.persist()
        try:
            count = frame.count()
            if count <= self._small_rows:
                self._merge_small(frame, batch)
                return
            self._check_drops(batch)
            self.table.merge_large(self._with_epoch(frame, batch), batch.number, self._note(batch, count))
        finally:
            frame.unpersist()

    def _with_epoch(self, frame: DataFrame, batch: Batch) -> DataFrame:
        from pyspark.sql import functions as F

        return frame.withColumns({name: F.lit(epoch).cast("long") for name, epoch in _epochs(batch.cut).items()})

    def _note(self, batch: Batch, rows: int, *, refreshed: bool = False) -> CommitMetadata:
        loaded = self.table.loaded(batch.cut, refreshed=refreshed)
        return self.table.note(batch.key, batch.cut, watermark_ms=batch.watermark_ms, rows=rows, **loaded)

    def _check_drops(self, batch: Batch) -> None:
        _dropped_rows.check(self.table.view, batch.number, _dropped_rows.dropped_rows(self._spark, self._checkpoint_id))


def _epochs(cut: Cut) -> dict[str, int]:
    return {column: cut.epoch(topic) for topic, column in changed_columns(cut.positions).items()}
