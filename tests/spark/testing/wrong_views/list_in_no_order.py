"""A list of coupons, in the order in which they came."""

# caught: VIEW_ORDER
# says: collect_list of coupon

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@view(name="list_in_no_order", version=1, events=["order.placed"], key=["hour", "customer"], partition_by="hour")
def list_in_no_order(placed: DataFrame) -> DataFrame:
    hours = placed.groupBy(F.window("event_time", "1 hour"), "customer").agg(F.collect_list("coupon").alias("x"))
    return hours.select(F.col("window.start").alias("hour"), "customer", "x")
