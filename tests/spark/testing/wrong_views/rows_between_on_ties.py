"""The amount of this payment and the one before, where two have one time."""

# caught: PROOF_ORDER
# says: a window of a number of rows

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F


@view(
    name="rows_between_on_ties",
    version=1,
    events=["order.paid"],
    key=["log_partition", "log_offset", "event_time"],
    partition_by="event_time",
    refresh="partitions",
)
def rows_between_on_ties(paid: DataFrame) -> DataFrame:
    two = Window.partitionBy(F.to_date("event_time")).orderBy("event_time").rowsBetween(-1, 0)
    return paid.select("log_partition", "log_offset", "event_time", F.sum("amount").over(two).alias("x"))
