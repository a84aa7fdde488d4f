"""A checksum that doesn't depend on the order of rows."""

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@view(name="checksum", version=1, events=["order.placed"], key=["hour", "customer"], partition_by="hour")
def checksum(placed: DataFrame) -> DataFrame:
    hours = placed.groupBy(F.window("event_time", "1 hour"), "customer").agg(
        F.bit_xor(F.xxhash64("order", "amount")).alias("x")
    )
    return hours.select(F.col("window.start").alias("hour"), "customer", "x")
