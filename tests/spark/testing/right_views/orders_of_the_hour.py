"""Orders per hour and customer."""

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@view(name="orders_of_the_hour", version=1, events=["order.placed"], key=["hour", "customer"], partition_by="hour")
def orders_of_the_hour(placed: DataFrame) -> DataFrame:
    hours = placed.groupBy(F.window("event_time", "1 hour"), "customer").agg(F.count("*").alias("x"))
    return hours.select(F.col("window.start").alias("hour"), "customer", "x")
