"""The oldest coupon, where two may be the oldest."""

# caught: VIEW_ORDER
# says: min_by of coupon

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@view(name="min_by_on_ties", version=1, events=["order.placed"], key=["hour", "customer"], partition_by="hour")
def min_by_on_ties(placed: DataFrame) -> DataFrame:
    hours = placed.groupBy(F.window("event_time", "1 hour"), "customer").agg(
        F.min_by("coupon", "event_time").alias("x")
    )
    return hours.select(F.col("window.start").alias("hour"), "customer", "x")
