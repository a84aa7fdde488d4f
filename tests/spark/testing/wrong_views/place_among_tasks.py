"""Notes the task that a row came by."""

# caught: VIEW_IMPURE
# says: spark_partition_id gives a different result

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@view(
    name="place_among_tasks",
    version=1,
    events=["order.placed"],
    key=["log_partition", "log_offset", "event_time"],
    partition_by="event_time",
)
def place_among_tasks(placed: DataFrame) -> DataFrame:
    x = F.spark_partition_id()
    return placed.select("log_partition", "log_offset", "event_time", x.alias("x"))
