"""Keeps a sample of the rows."""

# caught: VIEW_ORDER
# says: sample keeps different rows

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame


@view(
    name="sample_of_rows",
    version=1,
    events=["order.placed"],
    key=["log_partition", "log_offset", "event_time"],
    partition_by="event_time",
)
def sample_of_rows(placed: DataFrame) -> DataFrame:
    return placed.sample(0.1).select("log_partition", "log_offset", "event_time")
