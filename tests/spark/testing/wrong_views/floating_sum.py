"""Adds floats, which don't add exactly."""

# caught: VIEW_FLOAT
# says: adding floats isn't exact

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@view(name="floating_sum", version=1, events=["order.paid"], key=["hour", "method"], partition_by="hour")
def floating_sum(paid: DataFrame) -> DataFrame:
    hours = paid.groupBy(F.window("event_time", "1 hour"), "method").agg(F.sum("fee").alias("x"))
    return hours.select(F.col("window.start").alias("hour"), "method", "x")
