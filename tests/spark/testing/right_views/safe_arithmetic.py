"""Arithmetic that gives null where it has no answer."""

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@view(
    name="safe_arithmetic",
    version=1,
    events=["order.placed"],
    key=["log_partition", "log_offset", "event_time"],
    partition_by="event_time",
)
def safe_arithmetic(placed: DataFrame) -> DataFrame:
    rate = F.try_divide(F.lit(100), F.col("amount")).alias("rate")
    number = F.col("coupon").try_cast("int").alias("number")
    second = F.get(F.split("coupon", "-"), F.lit(1)).alias("second")
    return placed.select("log_partition", "log_offset", "event_time", rate, number, second)
