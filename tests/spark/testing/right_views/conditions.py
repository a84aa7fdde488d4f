"""Conditions that rows meet."""

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@view(name="conditions", version=1, events=["order.paid"], key=["hour", "method"], partition_by="hour")
def conditions(paid: DataFrame) -> DataFrame:
    hours = paid.groupBy(F.window("event_time", "1 hour"), "method").agg(
        F.struct(F.count_if(F.col("amount") > 15).alias("large"), F.bool_or(F.col("fee") > 1).alias("any_fee")).alias(
            "x"
        )
    )
    return hours.select(F.col("window.start").alias("hour"), "method", "x")
