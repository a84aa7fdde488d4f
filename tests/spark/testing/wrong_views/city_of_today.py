"""Joins each order with the newest city that its customer ever had: reprocessing says something else each time."""

# caught: PROOF_LOOKAHEAD
# says: lookahead

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@view(
    name="city_of_today",
    version=1,
    events=["order.placed"],
    tables=["customer.moved"],
    key=["log_partition", "log_offset", "event_time"],
    partition_by="event_time",
    refresh="partitions",
)
def city_of_today(placed: DataFrame, moved: DataFrame) -> DataFrame:
    newest = F.max(F.struct("event_time", "log_partition", "log_offset", "city")).alias("newest")
    home = moved.groupBy("customer").agg(newest)
    joined = placed.join(home, "customer", "left")
    return joined.select("log_partition", "log_offset", "event_time", "newest.city")
