"""Two aggregations, one of the other: the most orders in an hour of a day."""

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@view(name="busiest_hour", version=1, events=["order.placed"], key=["day"], partition_by="day", refresh="partitions")
def busiest_hour(placed: DataFrame) -> DataFrame:
    hours = placed.groupBy(F.window("event_time", "1 hour")).agg(F.count("*").alias("orders"))
    return hours.groupBy(F.to_date("window.start").alias("day")).agg(F.max("orders").alias("busiest"))
