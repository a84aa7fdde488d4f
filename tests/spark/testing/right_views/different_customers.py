"""Different customers of a day, counted exactly."""

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@view(
    name="different_customers",
    version=1,
    events=["order.placed"],
    key=["day"],
    partition_by="day",
    refresh="partitions",
)
def different_customers(placed: DataFrame) -> DataFrame:
    day = F.to_date("event_time").alias("day")
    return placed.groupBy(day).agg(F.countDistinct("customer").alias("customers"), F.count("*").alias("orders"))
