"""A customer's orders of a day, numbered; ties by the place in the log."""

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F


@view(
    name="numbered_with_ties_broken",
    version=1,
    events=["order.placed"],
    key=["log_partition", "log_offset", "event_time"],
    partition_by="event_time",
    refresh="partitions",
)
def numbered_with_ties_broken(placed: DataFrame) -> DataFrame:
    order = Window.partitionBy(F.to_date("event_time"), "customer").orderBy("event_time", "log_partition", "log_offset")
    return placed.select("log_partition", "log_offset", "event_time", F.row_number().over(order).alias("x"))
