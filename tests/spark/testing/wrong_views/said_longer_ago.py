"""Looks three days back for what another topic said, and declares one."""

# caught: PROOF_LOOKBACK
# says: lookback

from __future__ import annotations

from anabranch.views import view
from anabranch.views.joins import as_of
from pyspark.sql import DataFrame


@view(
    name="said_longer_ago",
    version=1,
    events=["order.placed", "customer.moved"],
    key=["log_partition", "log_offset", "event_time"],
    partition_by="event_time",
    lookback="1 day",
    refresh="partitions",
)
def said_longer_ago(placed: DataFrame, moved: DataFrame) -> DataFrame:
    then = as_of(placed, moved, on="customer", into="moved", within="3 days")
    return then.select("log_partition", "log_offset", "event_time", "moved.city")
