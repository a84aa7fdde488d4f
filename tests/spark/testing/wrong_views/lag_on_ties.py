"""The coupon before, where two orders have one time."""

# caught: PROOF_ORDER
# says: lag takes whichever

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F


@view(
    name="lag_on_ties",
    version=1,
    events=["order.placed"],
    key=["log_partition", "log_offset", "event_time"],
    partition_by="event_time",
    refresh="partitions",
)
def lag_on_ties(placed: DataFrame) -> DataFrame:
    order = Window.partitionBy(F.to_date("event_time")).orderBy("event_time")
    return placed.select("log_partition", "log_offset", "event_time", F.lag("coupon").over(order).alias("x"))
