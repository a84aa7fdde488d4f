"""The sink of a view with ``refresh="partitions"``: recompute the partitions that new events affect, as batch does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.compute.speed._cut_resolver import BatchCut, CutResolver
from anabranch.compute.speed._sink import Batch, FindFailingEvent, Sink, no_failing_event
from anabranch.compute.speed.table import BatchAction, SpeedTable
from anabranch.ingest.landing.table.schema import EVENT_DATE
from anabranch.lake import CommitMetadata
from anabranch.lake.cut import Cut
from anabranch.views.selection.partitions import (
    days_between,
    later_partitions,
    passed_partitions,
    touched_partitions,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Compute = Callable[[Cut, Sequence[date] | None, Mapping[str, int]], "DataFrame"]
"""Computes the function's rows over the on-time events up to a cut, for at least these partitions, or for all; in a
kappa view with the events from files up to these epochs."""


class PartitionSink(Sink):
    """As Sink. Spark's stream only says which days have new events; its only state is its offsets.

    Idempotent: a repeated batch computes the same rows for the same cut, so a crash between commit and checkpoint
    changes nothing.
    """

    def __init__(
        self,
        spark: SparkSession,
        table: SpeedTable,
        landing: CutResolver,
        checkpoint: Path,
        small_rows: int,
        compute: Compute,
        watermark: Callable[[Cut], datetime | None],
        landed_days: Callable[[], Sequence[date]],
        wanted: Sequence[date] | None = None,
        *,
        find_failing_event: FindFailingEvent = no_failing_event,
    ) -> None:
        super().__init__(spark, table, landing, checkpoint, small_rows, find_failing_event=find_failing_event)
        self._compute = compute
        self._watermark = watermark
        self._landed_days = landed_days
        self._wanted = wanted
        self._last_watermark: tuple[Cut, datetime | None] | None = None

    def _write(self, action: BatchAction, covered: BatchCut, frame: DataFrame, batch: Batch) -> None:
        view = self.table.view
        refresh = action is BatchAction.REFRESH
        changes = [] if refresh else [tuple(r) for r in frame.select("type", EVENT_DATE).distinct().collect()]
        if refresh or (view.kappa and (changes or view.closes)):
            self._refresh(self._compute(batch.cut, self._wanted, self.table.loaded_epochs(batch.cut)), batch)
            return
        affected = set() if view.kappa else {*self._affected(changes), *self._closed_since(batch.cut)}
        partitions = sorted(affected if self._wanted is None else affected & set(self._wanted))
        if not partitions:
            self.table.replace([], [], self._note(batch, 0))
            return
        rows = self._with_epoch(self._compute(batch.cut, partitions, {}), batch)
        files = self.table.stage_partitions(rows, partitions)
        self.table.replace(files, partitions, self._note(batch, sum(file.rows for file in files)))

    def _note(self, batch: Batch, rows: int, *, refreshed: bool = False) -> CommitMetadata:
        # Unlike a stream that begins anew, a refresh computes the events from files again that the table has.
        return super()._note(batch, rows)

    def _affected(self, changes: Sequence[tuple[str, date]]) -> list[date]:
        """The partitions whose rows can depend on the new events, given by type and day."""
        view = self.table.view
        affected = touched_partitions(view, (day for kind, day in changes if kind not in view.tables))
        history = [day for kind, day in changes if kind in view.tables]
        if not history:
            return affected
        later = later_partitions(view, min(history), self._landed_days())
        return sorted({*affected, *later})

    def _closed_since(self, cut: Cut) -> list[date]:
        """The partitions that the watermark has passed since the table's latest commit. Rows can appear there without a
        new event."""
        view = self.table.view
        if not view.closes:
            return []
        known, after = self._last_watermark, self._watermark(cut)
        before = known[1] if known is not None and known[0] == self.cut else self._watermark(self.cut)
        self._last_watermark = (cut, after)
        if after is None or before == after:
            return []
        # Landing is asked for its days once, when the first watermark closes all of them.
        passed = self._landed_days() if before is None else days_between(before, after)
        return passed_partitions(view, before, after, touched_partitions(view, passed))
