"""The most frequent coupon, where two may be."""

# caught: VIEW_ORDER
# says: mode of coupon

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@view(name="most_frequent", version=1, events=["order.placed"], key=["hour", "customer"], partition_by="hour")
def most_frequent(placed: DataFrame) -> DataFrame:
    hours = placed.groupBy(F.window("event_time", "1 hour"), "customer").agg(F.mode("coupon").alias("x"))
    return hours.select(F.col("window.start").alias("hour"), "customer", "x")
