"""Two-hour windows every hour, which reach an hour into the next day."""

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@view(
    name="sliding_windows",
    version=1,
    events=["order.placed"],
    key=["hour", "customer"],
    partition_by="hour",
    lookahead="1 hour",
)
def sliding_windows(placed: DataFrame) -> DataFrame:
    hours = placed.groupBy(F.window("event_time", "2 hours", "1 hour"), "customer").agg(F.count("*").alias("x"))
    return hours.select(F.col("window.start").alias("hour"), "customer", "x")
