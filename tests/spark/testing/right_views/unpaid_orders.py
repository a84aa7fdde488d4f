"""Orders that weren't paid within two hours."""

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@view(
    name="unpaid_orders",
    version=1,
    events=["order.placed", "order.paid"],
    key=["log_partition", "log_offset", "event_time"],
    partition_by="event_time",
    lookahead="2 hours",
    refresh="partitions",
)
def unpaid_orders(placed: DataFrame, paid: DataFrame) -> DataFrame:
    payments = paid.select(F.col("order").alias("of"), F.col("event_time").alias("at"))
    near = F.expr("order = of AND at BETWEEN event_time AND event_time + INTERVAL 2 HOURS")
    return placed.join(payments, near, "left_anti").select("log_partition", "log_offset", "event_time", "order")
