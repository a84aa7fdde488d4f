"""The extremes of an hour."""

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@view(name="largest_and_smallest", version=1, events=["order.placed"], key=["hour", "customer"], partition_by="hour")
def largest_and_smallest(placed: DataFrame) -> DataFrame:
    hours = placed.groupBy(F.window("event_time", "1 hour"), "customer").agg(
        F.struct(F.min("amount").alias("least"), F.max("amount").alias("most")).alias("x")
    )
    return hours.select(F.col("window.start").alias("hour"), "customer", "x")
