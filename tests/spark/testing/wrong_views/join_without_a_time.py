"""Joins orders and payments however far apart they are, and keeps both for ever."""

# caught: VIEW_WATERMARK
# says: join without a watermark

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@view(
    name="join_without_a_time",
    version=1,
    events=["order.placed", "order.paid"],
    key=["log_partition", "log_offset", "event_time"],
    partition_by="event_time",
)
def join_without_a_time(placed: DataFrame, paid: DataFrame) -> DataFrame:
    paid = paid.select(F.col("order").alias("of"), F.col("amount").alias("x"))
    return placed.join(paid, F.col("order") == F.col("of")).select("log_partition", "log_offset", "event_time", "x")
