"""Each event is a row, known by its place in the log."""

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame


@view(
    name="rows_as_they_are",
    version=1,
    events=["order.placed"],
    key=["log_partition", "log_offset", "event_time"],
    partition_by="event_time",
)
def rows_as_they_are(placed: DataFrame) -> DataFrame:
    return placed.select("log_partition", "log_offset", "event_time", "order", "amount", "coupon", "promised", "items")
