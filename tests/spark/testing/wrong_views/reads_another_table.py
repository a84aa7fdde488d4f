"""Joins a table that isn't among its events."""

# caught: VIEW_IMPURE
# says: accesses the Spark session

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame


@view(
    name="reads_another_table",
    version=1,
    events=["order.placed"],
    key=["log_partition", "log_offset", "event_time"],
    partition_by="event_time",
)
def reads_another_table(placed: DataFrame) -> DataFrame:
    prices = placed.sparkSession.read.table("prices")
    return placed.join(prices, "order").select("log_partition", "log_offset", "event_time", "price")
