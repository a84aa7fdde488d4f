"""The three largest payments of a day, where the third may tie with the fourth."""

# caught: PROOF_ORDER
# says: row_number numbers tied rows

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F


@view(
    name="top_three_on_ties",
    version=1,
    events=["order.paid"],
    key=["log_partition", "log_offset", "event_time"],
    partition_by="event_time",
    refresh="partitions",
)
def top_three_on_ties(paid: DataFrame) -> DataFrame:
    largest = Window.partitionBy(F.to_date("event_time")).orderBy(F.col("amount").desc())
    top = paid.withColumn("place", F.row_number().over(largest)).where("place <= 3")
    return top.select("log_partition", "log_offset", "event_time", "amount")
