"""Orders with the number of payments within a day, none among them."""

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@view(
    name="payments_of_orders",
    version=1,
    events=["order.placed", "order.paid"],
    key=["log_partition", "log_offset", "event_time"],
    partition_by="event_time",
    lookahead="1 day",
    refresh="partitions",
)
def payments_of_orders(placed: DataFrame, paid: DataFrame) -> DataFrame:
    payments = paid.select(F.col("order").alias("of"), F.col("event_time").alias("at"))
    near = F.expr("order = of AND at BETWEEN event_time AND event_time + INTERVAL 24 HOURS")
    joined = placed.join(payments, near, "left")
    return joined.groupBy("log_partition", "log_offset", "event_time").agg(F.count("of").alias("payments"))
