"""The tables that the data checks of one build read: landed events, speed half, staged batch half."""

from __future__ import annotations

from datetime import date
from functools import reduce
from typing import TYPE_CHECKING

from anabranch.certify._checks import (
    COORDINATES,
    completeness_check,
    count_columns,
    equality_check,
    half_checks,
    landing_checks,
)
from anabranch.certify._run_checks import Subject
from anabranch.certify.certify_partitions import Comparison
from anabranch.certify.comparison_inputs import build_rows, comparable_rows, function_rows
from anabranch.compute.batch.manifest import StagedBuild
from anabranch.contracts import Topic
from anabranch.ingest.landing.table.schema import EVENT_DATE
from anabranch.lake.frames import table_rows
from anabranch.lake.layout import landing_table
from anabranch.lake.log.delta_tables import delta_table
from anabranch.views.model.definition import PARTITION_DATE
from anabranch.views.selection.inputs import events_at, needed_dates

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LANDED = (
    *COORDINATES, "reason", "late", "type", "event_id", "source", "released_from", "event_time",
)  # fmt: skip


def subjects_of(spark: SparkSession, comparison: Comparison, staged: StagedBuild | None) -> list[Subject]:
    """Return the three tables with their checks. A kappa view has no batch half."""
    view, topics = comparison.view.definition, comparison.view.topics
    # The function is only planned here, not run: the plan shows which of its columns are counts.
    events = events_at(spark, comparison.view, comparison.state.cut, [], late=True)
    planned = function_rows(view, topics, events)
    checks = half_checks(view, count_columns(planned))
    equal = equality_check(view, comparison.speed.columns)
    subjects = [
        *(_landing(spark, topic, comparison, alone=len(topics.each) == 1) for topic in topics.each),
        Subject(
            "speed half",
            comparable_rows(comparison.speed),
            [*checks, equal],
            {"expected": comparable_rows(_expected(comparison))},
        ),
    ]
    if staged is not None:
        build = build_rows(spark, view, comparison.speed, staged.paths(staged.partitions), staged.base)
        unchanged = {"unchanged": _unchanged(comparison)}
        subjects.append(Subject("batch half", build, [*checks, completeness_check()], unchanged))
    return subjects


def _landing(spark: SparkSession, topic: Topic, comparison: Comparison, *, alone: bool) -> Subject:
    from pyspark.sql import functions as F

    view = comparison.view.definition
    days = frozenset(needed_dates(view, comparison.partitions))
    table = delta_table(landing_table(comparison.view.settings, topic.name))
    landed = table_rows(spark, table, None if view.kappa else days.__contains__)
    return Subject(
        "landing" if alone else f"landing of {topic.name}",
        landed.select(*_LANDED, F.col(EVENT_DATE).alias(PARTITION_DATE)),
        landing_checks(),
    )


def _expected(comparison: Comparison) -> DataFrame:
    """Return the rows that the speed half should hold for these partitions.

    Filtering by partition is safe here because both sides are persisted: Spark can't push the filter through the
    author's function."""
    from pyspark.sql import functions as F

    rows = reduce(lambda left, right: left.unionByName(right), comparison.expected.values())
    return (
        rows
        if comparison.view.definition.kappa
        else rows.where(F.col(PARTITION_DATE).isin(list(comparison.partitions)))
    )


def _unchanged(comparison: Comparison) -> DataFrame:
    """Return the partitions that have rows in the speed half, and the same events in both halves."""
    from pyspark.sql import functions as F

    unchanged = comparison.speed.where(F.col(PARTITION_DATE).isin(unchanged_partitions(comparison)))
    return unchanged.select(PARTITION_DATE).distinct()


def unchanged_partitions(comparison: Comparison) -> list[date]:
    """Return the partitions that nothing has changed between the two cuts, no event and no watermark, and that no late
    or loaded event affects: with one of these a day may rightly have no row in batch."""
    counts, changed = comparison.counts, comparison.changed
    return [day for day in comparison.partitions if day not in changed and not counts[day].batch_only]
