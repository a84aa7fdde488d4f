"""The newest coupon of an hour, ties by the place in the log."""

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@view(name="newest_of_the_hour", version=1, events=["order.placed"], key=["hour", "customer"], partition_by="hour")
def newest_of_the_hour(placed: DataFrame) -> DataFrame:
    newest = F.max(F.struct("event_time", "log_partition", "log_offset", "coupon")).alias("newest")
    hours = placed.groupBy(F.window("event_time", "1 hour"), "customer").agg(newest)
    return hours.select(F.col("window.start").alias("hour"), "customer", F.col("newest.coupon").alias("coupon"))
