"""Payments of orders of the last three hours, and declares one."""

# caught: PROOF_LOOKBACK
# says: lookback says 1:00:00

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@view(
    name="lookback_too_short",
    version=1,
    events=["order.placed", "order.paid"],
    key=["log_partition", "log_offset", "event_time"],
    partition_by="event_time",
    lookback="1 hour",
    refresh="partitions",
)
def lookback_too_short(placed: DataFrame, paid: DataFrame) -> DataFrame:
    orders = placed.select(F.col("order").alias("of"), F.col("event_time").alias("at"))
    near = F.expr("order = of AND at BETWEEN event_time - INTERVAL 3 HOURS AND event_time")
    return paid.join(orders, near).groupBy("log_partition", "log_offset", "event_time").agg(F.count("*").alias("x"))
