"""Temporal joins that Spark doesn't have."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from anabranch.views.model.definition import duration, names

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ORDER = ("event_time", "log_partition", "log_offset")


def as_of(
    left: DataFrame, right: DataFrame, *, on: str | Sequence[str], into: str, within: str | timedelta | None = None
) -> DataFrame:
    """As-of join, SQL's ``FOR SYSTEM_TIME AS OF left.event_time``: each row of ``left`` with the newest matching row of
    ``right`` at that time.

    The column ``into`` is a struct of all columns of the newest row of ``right`` that is equal in ``on``, not later
    than the left row's ``event_time``, and less than ``within`` earlier. It is null where there is none, or where a
    column of ``on`` is null. Ties in ``event_time`` are broken by the larger (log_partition, log_offset). Each row of
    ``left`` appears exactly once, unchanged.

    Both are inputs of a view, or have the columns event_time, log_partition and log_offset. Spark can't stream this
    join: declare refresh="partitions". ``within`` must not exceed the view's lookback; without it, declare ``right`` in
    the view's ``tables``, so that its whole history is read.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    keys = names(on)
    same = [F.col(key).alias(f"_on_{key}") for key in keys]
    right_row = F.struct(*_ORDER, F.struct(*right.columns).alias("row")).alias("_right")
    right_side = right.select("event_time", *same, F.lit(0).alias("_side"), right_row)
    no_row = F.lit(None).cast(right_side.schema["_right"].dataType).alias("_right")
    # Column by column, so that Spark reads and sorts only the columns of ``left`` that the view uses later.
    left_side = left.select(*left.columns, *same, F.lit(1).alias("_side"), no_row)
    both = left_side.unionByName(right_side, allowMissingColumns=True)
    # A right row with the same event time counts: side 0 sorts before side 1.
    until_then = Window.partitionBy(*(f"_on_{key}" for key in keys)).orderBy("event_time", "_side")
    until_then = until_then.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    newest = both.withColumn("_newest", F.max("_right").over(until_then)).where("_side = 1")
    known = reduce(and_, (F.col(key).isNotNull() for key in keys))
    if within is not None:
        seconds = duration(within).total_seconds()
        known = known & (F.col("_newest.event_time") > F.col("event_time") - F.expr(f"interval {seconds} seconds"))
    return newest.select(*left.columns, F.when(known, F.col("_newest.row")).alias(into))
