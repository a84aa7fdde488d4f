"""What became of a day's orders, of three event types."""

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@view(
    name="three_types_a_day",
    version=1,
    events=["order.placed", "order.paid", "order.shipped"],
    key=["day", "order"],
    partition_by="day",
)
def three_types_a_day(placed: DataFrame, paid: DataFrame, shipped: DataFrame) -> DataFrame:
    kinds = {"placed": placed, "paid": paid, "shipped": shipped}
    each = [frame.select("event_time", "order", F.lit(kind).alias("kind")) for kind, frame in kinds.items()]
    days = each[0].unionAll(each[1]).unionAll(each[2]).groupBy(F.window("event_time", "1 day"), "order")
    counted = days.agg(*(F.count_if(F.col("kind") == kind).alias(kind) for kind in kinds))
    return counted.select(F.to_date("window.start").alias("day"), "order", *kinds)
