"""The newest order of each customer, a kappa view."""

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@view(name="customer_now", version=1, events=["order.placed"], key=["customer"])
def customer_now(placed: DataFrame) -> DataFrame:
    newest = F.max(F.struct("event_time", "log_partition", "log_offset", "order", "amount")).alias("newest")
    now = placed.groupBy("customer").agg(newest)
    return now.select("customer", "newest.order", "newest.amount", F.col("newest.event_time").alias("since"))
