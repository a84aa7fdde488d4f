"""Reads the history of a table, and declares it as events of the same day."""

# caught: PROOF_LOOKBACK
# says: lookback

from __future__ import annotations

from anabranch.views import view
from anabranch.views.joins import as_of
from pyspark.sql import DataFrame


@view(
    name="table_among_the_events",
    version=1,
    events=["order.placed", "customer.moved"],
    key=["log_partition", "log_offset", "event_time"],
    partition_by="event_time",
    refresh="partitions",
)
def table_among_the_events(placed: DataFrame, moved: DataFrame) -> DataFrame:
    then = as_of(placed, moved, on="customer", into="moved")
    return then.select("log_partition", "log_offset", "event_time", "moved.city")
