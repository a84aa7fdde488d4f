"""The first coupon of a day, where two may be the first."""

# caught: PROOF_ORDER|VIEW_ORDER
# says: first

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F


@view(
    name="first_value_on_ties",
    version=1,
    events=["order.placed"],
    key=["log_partition", "log_offset", "event_time"],
    partition_by="event_time",
    refresh="partitions",
)
def first_value_on_ties(placed: DataFrame) -> DataFrame:
    order = Window.partitionBy(F.to_date("event_time")).orderBy("event_time")
    return placed.select("log_partition", "log_offset", "event_time", F.first("coupon").over(order).alias("x"))
