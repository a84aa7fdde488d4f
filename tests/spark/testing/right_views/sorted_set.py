"""Different coupons of an hour, sorted."""

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@view(name="sorted_set", version=1, events=["order.placed"], key=["hour", "customer"], partition_by="hour")
def sorted_set(placed: DataFrame) -> DataFrame:
    hours = placed.groupBy(F.window("event_time", "1 hour"), "customer").agg(
        F.sort_array(F.collect_set("coupon")).alias("x")
    )
    return hours.select(F.col("window.start").alias("hour"), "customer", "x")
