"""Different orders by a sketch that doesn't depend on their order."""

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@view(name="distinct_by_sketch", version=1, events=["order.placed"], key=["hour", "customer"], partition_by="hour")
def distinct_by_sketch(placed: DataFrame) -> DataFrame:
    hours = placed.groupBy(F.window("event_time", "1 hour"), "customer").agg(
        F.approx_count_distinct("order").alias("x")
    )
    return hours.select(F.col("window.start").alias("hour"), "customer", "x")
