"""The median, exactly."""

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@view(name="exact_percentile", version=1, events=["order.paid"], key=["hour", "method"], partition_by="hour")
def exact_percentile(paid: DataFrame) -> DataFrame:
    hours = paid.groupBy(F.window("event_time", "1 hour"), "method").agg(F.percentile("amount", 0.5).alias("x"))
    return hours.select(F.col("window.start").alias("hour"), "method", "x")
