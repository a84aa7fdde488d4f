"""The three largest payments of a day, with all that tie."""

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F


@view(
    name="ranked_with_ties",
    version=1,
    events=["order.paid"],
    key=["log_partition", "log_offset", "event_time"],
    partition_by="event_time",
    refresh="partitions",
)
def ranked_with_ties(paid: DataFrame) -> DataFrame:
    largest = Window.partitionBy(F.to_date("event_time")).orderBy(F.col("amount").desc())
    top = paid.withColumn("place", F.rank().over(largest)).where("place <= 3")
    return top.select("log_partition", "log_offset", "event_time", "amount", "place")
