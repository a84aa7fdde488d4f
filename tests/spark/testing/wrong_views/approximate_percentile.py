"""An approximate percentile, which depends on how rows are merged."""

# caught: VIEW_ORDER
# says: F.percentile, which is exact

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@view(name="approximate_percentile", version=1, events=["order.placed"], key=["hour", "customer"], partition_by="hour")
def approximate_percentile(placed: DataFrame) -> DataFrame:
    hours = placed.groupBy(F.window("event_time", "1 hour"), "customer").agg(
        F.percentile_approx("amount", 0.5).alias("x")
    )
    return hours.select(F.col("window.start").alias("hour"), "customer", "x")
