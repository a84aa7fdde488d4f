"""The time since a customer's last order, which may lie on another day."""

# caught: PROOF_LOOKBACK
# says: lookback says nothing

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F


@view(
    name="missing_lookback",
    version=1,
    events=["order.placed"],
    key=["customer", "event_time"],
    partition_by="event_time",
    refresh="partitions",
)
def missing_lookback(placed: DataFrame) -> DataFrame:
    times = placed.groupBy("customer", "event_time").agg(F.count("*").alias("orders"))
    last = F.lag("event_time").over(Window.partitionBy("customer").orderBy("event_time"))
    return times.withColumn("last", last)
