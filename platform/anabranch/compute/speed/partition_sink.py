"""The speed half of a view with ``refresh="partitions"``: what new events touch is computed again, as batch does it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.compute.speed.cut_resolver import Covered, CutResolver
from anabranch.compute.speed.sink import Batch, Blame, Sink, nobody
from anabranch.compute.speed.table import BatchAction, SpeedTable
from anabranch.ingest.landing.schema import EVENT_DATE
from anabranch.lake import Cut
from anabranch.views.partitions import later_partitions, passed_partitions, touched_partitions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Compute = Callable[[Cut, Sequence[date] | None], "DataFrame"]
"""The rows of the function over the on-time events up to a cut, for some partitions (at least) or for all."""


class PartitionSink(Sink):
    """As Sink. Spark's stream says only which days have new events; it keeps no state but its offsets.

    A repeated batch computes the same rows for the same cut, so a crash between commit and checkpoint changes nothing.
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
        blame: Blame = nobody,
    ) -> None:
        super().__init__(spark, table, landing, checkpoint, small_rows, blame=blame)
        self._compute = compute
        self._watermark = watermark
        self._landed_days = landed_days
        self._wanted = wanted

    def _write(self, step: BatchAction, covered: Covered, frame: DataFrame, batch: Batch) -> None:
        view = self.table.view
        all_again = step is BatchAction.REFRESH
        changes = [] if all_again else [tuple(r) for r in frame.select("type", EVENT_DATE).distinct().collect()]
        if all_again or (view.kappa and (changes or view.closes)):
            self._refresh(self._compute(batch.cut, self._wanted), batch)
            return
        touched = set() if view.kappa else {*self._touched(changes), *self._passed(batch.cut)}
        partitions = sorted(touched if self._wanted is None else touched & set(self._wanted))
        if not partitions:
            self.table.replace([], [], self._note(batch, 0))
            return
        rows = self._with_epoch(self._compute(batch.cut, partitions), batch)
        files = self.table.stage_partitions(rows, partitions)
        self.table.replace(files, partitions, self._note(batch, sum(file.rows for file in files)))

    def _touched(self, changes: Sequence[tuple[str, date]]) -> list[date]:
        """The partitions whose rows can depend on new events, given by type and day."""
        view = self.table.view
        touched = touched_partitions(view, (day for kind, day in changes if kind not in view.tables))
        history = [day for kind, day in changes if kind in view.tables]
        if not history:
            return touched
        later = later_partitions(view, min(history), self._landed_days())
        return sorted({*touched, *later})

    def _passed(self, cut: Cut) -> list[date]:
        """What the watermark has passed since the table's newest commit: rows appear there without any event."""
        view = self.table.view
        if not view.closes:
            return []
        moved = (self._watermark(before) for before in (self.cut, cut))
        return passed_partitions(view, *moved)
