"""What another topic said within three hours before."""

from __future__ import annotations

from anabranch.views import view
from anabranch.views.joins import as_of
from pyspark.sql import DataFrame


@view(
    name="moved_within_three_hours",
    version=1,
    events=["order.placed", "customer.moved"],
    key=["log_partition", "log_offset", "event_time"],
    partition_by="event_time",
    lookback="3 hours",
    refresh="partitions",
)
def moved_within_three_hours(placed: DataFrame, moved: DataFrame) -> DataFrame:
    then = as_of(placed, moved, on="customer", into="moved", within="3 hours")
    return then.select("log_partition", "log_offset", "event_time", "moved.city", "moved.event_id")
