"""Two tables kept from events, joined as either side changes."""

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@view(
    name="customers_and_orders",
    version=1,
    events=["order.placed", "customer.moved"],
    key=["customer"],
    refresh="partitions",
)
def customers_and_orders(placed: DataFrame, moved: DataFrame) -> DataFrame:
    place = ("event_time", "log_partition", "log_offset")
    home = moved.groupBy("customer").agg(F.max(F.struct(*place, "city")).alias("home"))
    last = placed.groupBy("customer").agg(F.max(F.struct(*place, "order")).alias("last"), F.count("*").alias("orders"))
    return home.join(last, "customer", "full_outer").select("customer", "home.city", "last.order", "orders")
