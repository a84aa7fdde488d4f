"""Integers without bounds, added as decimals."""

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@view(name="decimal_sum", version=1, events=["order.placed"], key=["hour", "customer"], partition_by="hour")
def decimal_sum(placed: DataFrame) -> DataFrame:
    hours = placed.groupBy(F.window("event_time", "1 hour"), "customer").agg(
        F.sum(F.col("amount").cast("decimal(38,0)")).alias("x")
    )
    return hours.select(F.col("window.start").alias("hour"), "customer", "x")
