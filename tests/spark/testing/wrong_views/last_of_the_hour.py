"""Takes the last coupon of an hour, in no order."""

# caught: VIEW_ORDER
# says: last of coupon

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@view(name="last_of_the_hour", version=1, events=["order.placed"], key=["hour", "customer"], partition_by="hour")
def last_of_the_hour(placed: DataFrame) -> DataFrame:
    hours = placed.groupBy(F.window("event_time", "1 hour"), "customer").agg(F.last("coupon").alias("x"))
    return hours.select(F.col("window.start").alias("hour"), "customer", "x")
