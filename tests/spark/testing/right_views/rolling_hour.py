"""Payments of the hour before each one."""

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F


@view(
    name="rolling_hour",
    version=1,
    events=["order.paid"],
    key=["log_partition", "log_offset", "event_time"],
    partition_by="event_time",
    lookback="1 hour",
    refresh="partitions",
)
def rolling_hour(paid: DataFrame) -> DataFrame:
    seconds = F.unix_micros("event_time")
    hour = Window.orderBy(seconds).rangeBetween(-3_600_000_000, 0)
    return paid.select("log_partition", "log_offset", "event_time", F.sum("amount").over(hour).alias("x"))
