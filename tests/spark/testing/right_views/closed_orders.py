"""Orders of which it is certain, by the watermark, that nobody paid them within two hours."""

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@view(
    name="closed_orders",
    version=1,
    events=["order.placed", "order.paid"],
    key=["log_partition", "log_offset", "event_time"],
    partition_by="event_time",
    lookahead="2 hours",
    refresh="partitions",
    closes=True,
)
def closed_orders(placed: DataFrame, paid: DataFrame) -> DataFrame:
    payments = paid.select(F.col("order").alias("of"), F.col("event_time").alias("at"))
    near = F.expr("order = of AND at BETWEEN event_time AND event_time + INTERVAL 2 HOURS")
    closed = placed.where("event_time + INTERVAL 2 HOURS < watermark")
    return closed.join(payments, near, "left_anti").select("log_partition", "log_offset", "event_time", "order")
