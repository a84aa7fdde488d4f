"""What the suite looks at for one build: the landed events, the speed half, the staged batch half."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING
from uuid import uuid4

from anabranch.events import Sources, Topic
from anabranch.landing.schema import DUPLICATE, QUARANTINED, VALID
from anabranch.landing.schema import PARTITION as EVENT_DATE
from anabranch.reconcile.certify import Comparison
from anabranch.reconcile.checks import HERE, completeness_check, count_columns, half_checks, landing_checks
from anabranch.reconcile.sides import build_rows, function_rows
from anabranch.reconcile.staged import Staged
from anabranch.reconcile.suite import Subject, great_expectations
from anabranch.settings import Settings
from anabranch.tables.layout import landing_table
from anabranch.views.definition import PARTITION
from anabranch.views.inputs import events_at, needed_dates

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_COORDINATES = ("topic", "partition", "offset", "append_time", "epoch", "decision")
_LANDED = (*_COORDINATES, "reason", "late", "type", "event_id", "source", "released_from", "receivedtime")


def subjects_of(
    spark: SparkSession, settings: Settings, topics: Sources, comparison: Comparison, staged: Staged | None
) -> list[Subject]:
    """The three tables with their expectations; a kappa view has no batch half."""
    great_expectations()
    from anabranch.reconcile.expectations import ExpectBothPathsToBeEqual, ExpectNoPartitionToOffend

    view = comparison.view
    # The function is only planned here, to see which of its columns are counts.
    planned = function_rows(view, topics, events_at(spark, settings, view, topics, comparison.state.cut, [], late=True))
    own = half_checks(view, count_columns(planned))
    expected = _named(_expected(comparison))
    equal = ExpectBothPathsToBeEqual.over(view, comparison.speed.columns, expected)
    speed = [*map(ExpectNoPartitionToOffend.of, own), equal]
    subjects = [
        *(_landing(spark, settings, topic, comparison, alone=len(topics.each) == 1) for topic in topics.each),
        Subject("speed half", _marked(comparison.speed), speed),
    ]
    if staged is not None:
        built = build_rows(spark, view, comparison.speed, staged.paths(staged.partitions), staged.base)
        checks = [*own, completeness_check(_named(_settled(comparison)))]
        subjects.append(Subject("batch half", built, [*map(ExpectNoPartitionToOffend.of, checks)]))
    return subjects


def _landing(spark: SparkSession, settings: Settings, topic: Topic, comparison: Comparison, *, alone: bool) -> Subject:
    from great_expectations.expectations.core.expect_column_values_to_be_in_set import ExpectColumnValuesToBeInSet
    from great_expectations.expectations.core.expect_column_values_to_not_be_null import ExpectColumnValuesToNotBeNull
    from pyspark.sql import functions as F

    from anabranch.reconcile.expectations import ExpectNoPartitionToOffend

    landed = spark.read.format("delta").load(landing_table(settings, topic.name))
    if not comparison.view.kappa:
        landed = landed.where(F.col(EVENT_DATE).isin(needed_dates(comparison.view, comparison.partitions)))
    expectations = [
        *(ExpectColumnValuesToNotBeNull(column=name) for name in _COORDINATES),
        ExpectColumnValuesToBeInSet(column="decision", value_set=[VALID, QUARANTINED, DUPLICATE]),
        *map(ExpectNoPartitionToOffend.of, landing_checks(topic)),
    ]
    return Subject(
        "landing" if alone else f"landing of {topic.name}",
        landed.select(*_LANDED, "event_time", EVENT_DATE),
        expectations,
    )


def _expected(comparison: Comparison) -> DataFrame:
    """What the speed half should hold of these partitions. Both sides are persisted by now: that is the barrier
    behind which rows of other partitions may be left out."""
    from pyspark.sql import functions as F

    rows = reduce(lambda left, right: left.unionByName(right), comparison.expected.values())
    return rows if comparison.view.kappa else rows.where(F.col(PARTITION).isin(list(comparison.partitions)))


def _settled(comparison: Comparison) -> DataFrame:
    """The partitions with rows in the speed half that no event between the two cuts touches."""
    from pyspark.sql import functions as F

    settled = [day for day in comparison.partitions if not comparison.counts[day].between]
    return comparison.speed.where(F.col(PARTITION).isin(settled)).select(PARTITION).distinct()


def _marked(rows: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    return rows.withColumn(HERE, F.lit(1))


def _named(rows: DataFrame) -> str:
    """A temporary view of this session, under a name that no other run has."""
    name = f"anabranch_{uuid4().hex}"
    _marked(rows).createOrReplaceTempView(name)
    return name
