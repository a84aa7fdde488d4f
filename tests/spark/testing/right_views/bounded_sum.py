"""Payments, which their contract bounds."""

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@view(name="bounded_sum", version=1, events=["order.paid"], key=["hour", "method"], partition_by="hour")
def bounded_sum(paid: DataFrame) -> DataFrame:
    hours = paid.groupBy(F.window("event_time", "1 hour"), "method").agg(F.sum("amount").alias("x"))
    return hours.select(F.col("window.start").alias("hour"), "method", "x")
