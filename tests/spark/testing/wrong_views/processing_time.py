"""Rows are stamped with the time at which they are processed."""

# caught: VIEW_IMPURE
# says: current_timestamp gives a different result

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@view(
    name="processing_time",
    version=1,
    events=["order.placed"],
    key=["log_partition", "log_offset", "event_time"],
    partition_by="event_time",
)
def processing_time(placed: DataFrame) -> DataFrame:
    x = F.current_timestamp()
    return placed.select("log_partition", "log_offset", "event_time", x.alias("x"))
