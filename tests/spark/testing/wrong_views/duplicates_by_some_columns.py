"""Drops duplicates by some columns, and keeps whichever came first."""

# caught: VIEW_ORDER
# says: dropDuplicates on some columns

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame


@view(
    name="duplicates_by_some_columns",
    version=1,
    events=["order.placed"],
    key=["log_partition", "log_offset", "event_time"],
    partition_by="event_time",
)
def duplicates_by_some_columns(placed: DataFrame) -> DataFrame:
    return placed.dropDuplicates(["event_time", "order"]).select("log_partition", "log_offset", "event_time")
