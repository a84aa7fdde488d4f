"""Each item of an order by its place in it."""

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@view(
    name="items_one_by_one",
    version=1,
    events=["order.placed"],
    key=["log_partition", "log_offset", "event_time", "place"],
    partition_by="event_time",
)
def items_one_by_one(placed: DataFrame) -> DataFrame:
    return placed.select("log_partition", "log_offset", "event_time", F.posexplode("items").alias("place", "item"))
