"""A running total since the beginning, as a view with partitions."""

# caught: PROOF_LOOKBACK
# says: lookback says nothing

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F


@view(
    name="running_total",
    version=1,
    events=["order.placed"],
    key=["customer", "event_time"],
    partition_by="event_time",
    refresh="partitions",
)
def running_total(placed: DataFrame) -> DataFrame:
    times = placed.groupBy("customer", "event_time").agg(F.count("*").alias("orders"))
    before = Window.partitionBy("customer").orderBy("event_time").rangeBetween(Window.unboundedPreceding, 0)
    return times.withColumn("total", F.sum("orders").over(before))
