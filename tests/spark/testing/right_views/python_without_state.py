"""A Python function of its arguments only."""

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@F.udf("string")
def shouted(coupon):
    return None if coupon is None else f"{coupon.upper()}!"


@view(
    name="python_without_state",
    version=1,
    events=["order.placed"],
    key=["log_partition", "log_offset", "event_time"],
    partition_by="event_time",
)
def python_without_state(placed: DataFrame) -> DataFrame:
    x = shouted("coupon")
    return placed.select("log_partition", "log_offset", "event_time", x.alias("x"))
