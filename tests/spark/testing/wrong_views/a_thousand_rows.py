"""Keeps a thousand rows, whichever."""

# caught: VIEW_ORDER
# says: limit keeps different rows

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame


@view(
    name="a_thousand_rows",
    version=1,
    events=["order.placed"],
    key=["log_partition", "log_offset", "event_time"],
    partition_by="event_time",
)
def a_thousand_rows(placed: DataFrame) -> DataFrame:
    return placed.select("log_partition", "log_offset", "event_time").limit(1000)
