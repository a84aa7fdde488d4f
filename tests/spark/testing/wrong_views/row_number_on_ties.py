"""Numbers a customer's orders of a day by their time, which two may share."""

# caught: PROOF_ORDER
# says: row_number numbers tied rows

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F


@view(
    name="row_number_on_ties",
    version=1,
    events=["order.placed"],
    key=["log_partition", "log_offset", "event_time"],
    partition_by="event_time",
    refresh="partitions",
)
def row_number_on_ties(placed: DataFrame) -> DataFrame:
    order = Window.partitionBy(F.to_date("event_time"), "customer").orderBy("event_time")
    numbered = placed.withColumn("x", F.row_number().over(order))
    return numbered.select("log_partition", "log_offset", "event_time", "x")
