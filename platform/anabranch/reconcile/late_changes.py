"""What the late events changed, partition by partition: a staged build against the speed half."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

from anabranch.events import Topic
from anabranch.reconcile.sides import SpeedState, build_rows, events_at, function_rows, speed_rows, speed_state
from anabranch.reconcile.staged import Staged
from anabranch.reconcile.touched import touched
from anabranch.settings import Settings
from anabranch.views.definition import PARTITION, View

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class LateChanges:
    """One partition of a build, beside the speed half. ``comparable``: no event lies between the two cuts."""

    partition: date
    late_events: int
    added: int = 0
    changed: int = 0
    removed: int = 0
    comparable: bool = True

    @property
    def rows(self) -> int:
        return self.added + self.changed + self.removed

    @property
    def doubtful(self) -> bool:
        """Whether the late events alone don't explain the difference: more rows than events, or other events."""
        return self.rows > self.late_events or not self.comparable


def late_changes(
    spark: SparkSession, settings: Settings, view: View, topic: Topic, build: Staged, state: SpeedState | None = None
) -> list[LateChanges]:
    """One entry per partition of ``build``, in order; one Spark job. Partitions that events between the build's
    cut and the speed table's touch differ for that reason too: they are marked as not comparable."""
    state = state or speed_state(settings, view)
    counts = touched(settings, view, topic, build.partitions, build.cut, state.cut)
    alike = [day for day in build.partitions if not counts[day].between]
    found: dict[date, tuple[int, int, int]] = {}
    if alike:
        speed = speed_rows(spark, view, state, alike)
        found = _changes(view, speed, build_rows(spark, view, speed, build.paths(alike), build.base))
    return [
        LateChanges(day, counts[day].late, *found.get(day, (0, 0, 0)), comparable=day in alike)
        for day in build.partitions
    ]


def wrong_partitions(
    spark: SparkSession, settings: Settings, view: View, topic: Topic, build: Staged, partitions: Sequence[date]
) -> list[date]:
    """The ``partitions`` in which the build isn't the function of all events up to its own cut: computed again."""
    if not partitions:
        return []
    events = events_at(spark, settings, view, topic, build.cut, partitions, late=True)
    expected = function_rows(view, topic, events).localCheckpoint()  # a barrier before the rows are compared
    made = build_rows(spark, view, expected, build.paths(partitions), build.base)
    found = _changes(view, expected, made)
    return [day for day in partitions if any(found.get(day, ()))]


def _changes(view: View, before: DataFrame, after: DataFrame) -> dict[date, tuple[int, int, int]]:
    """Per partition how many keys were added, changed and removed from ``before`` to ``after``."""
    from pyspark.sql import functions as F

    sided = before.withColumn("_after", F.lit(0)).unionByName(after.withColumn("_after", F.lit(1)))
    rows = sided.groupBy(*before.columns).agg(F.sum("_after").alias("_new"), F.sum(1 - F.col("_after")).alias("_old"))
    keys = (
        rows.where(F.col("_new") != F.col("_old"))
        .groupBy(PARTITION, *_more(view))
        .agg(F.max(F.col("_new") > F.col("_old")).alias("new"), F.max(F.col("_old") > F.col("_new")).alias("old"))
    )
    counted = keys.groupBy(PARTITION).agg(
        F.count_if(F.col("new") & ~F.col("old")).alias("added"),
        F.count_if(F.col("new") & F.col("old")).alias("changed"),
        F.count_if(~F.col("new") & F.col("old")).alias("removed"),
    )
    return {r[PARTITION]: (r["added"], r["changed"], r["removed"]) for r in counted.collect()}


def _more(view: View) -> list[str]:
    return [name for name in view.key if name != PARTITION]
