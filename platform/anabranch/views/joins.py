"""Joins by time that Spark has no word for."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from anabranch.views.definition import duration, names

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ORDER = ("event_time", "log_partition", "log_offset")


def as_of(
    left: DataFrame, right: DataFrame, *, on: str | Sequence[str], into: str, within: str | timedelta | None = None
) -> DataFrame:
    """Each row of ``left`` with what ``right`` said at that time: SQL's ``FOR SYSTEM_TIME AS OF left.event_time``.

    The column ``into`` is a struct of all columns of the newest row of ``right`` that is equal in ``on`` and not later
    than the row's ``event_time`` (nor ``within`` or more earlier); null where there is none, or where a column of
    ``on`` is null. Of rows of one time the one with the larger (log_partition, log_offset) is newer. Rows of ``left``
    stay as they are, in number too.

    Both are inputs of a view, or have their columns event_time, log_partition and log_offset. Spark can't stream it:
    declare refresh="partitions". ``within`` is at most the view's lookback; without it ``right`` belongs into the
    view's ``tables``, and tells what it ever said.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    keys = names(on)
    same = [F.col(key).alias(f"_on_{key}") for key in keys]
    told = F.struct(*_ORDER, F.struct(*right.columns).alias("row")).alias("_told")
    said = right.select("event_time", *same, F.lit(0).alias("_side"), told)
    nothing = F.lit(None).cast(said.schema["_told"].dataType).alias("_told")
    # Column by column, so that Spark reads and sorts only those of ``left`` that the view goes on with.
    asked = left.select(*left.columns, *same, F.lit(1).alias("_side"), nothing)
    both = asked.unionByName(said, allowMissingColumns=True)
    # What was said at the same time counts: it comes first.
    until_then = Window.partitionBy(*(f"_on_{key}" for key in keys)).orderBy("event_time", "_side")
    until_then = until_then.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    newest = both.withColumn("_newest", F.max("_told").over(until_then)).where("_side = 1")
    known = reduce(and_, (F.col(key).isNotNull() for key in keys))
    if within is not None:
        seconds = duration(within).total_seconds()
        known = known & (F.col("_newest.event_time") > F.col("event_time") - F.expr(f"interval {seconds} seconds"))
    return newest.select(*left.columns, F.when(known, F.col("_newest.row")).alias(into))
