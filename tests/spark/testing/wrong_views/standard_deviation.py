"""Computes a deviation in floating point."""

# caught: VIEW_FLOAT
# says: computed in floating point

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@view(name="standard_deviation", version=1, events=["order.paid"], key=["hour", "method"], partition_by="hour")
def standard_deviation(paid: DataFrame) -> DataFrame:
    hours = paid.groupBy(F.window("event_time", "1 hour"), "method").agg(F.stddev("amount").alias("x"))
    return hours.select(F.col("window.start").alias("hour"), "method", "x")
