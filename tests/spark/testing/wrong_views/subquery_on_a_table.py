"""Asks another table in a subquery."""

# caught: VIEW_READS|VIEW_ANALYSIS
# says:

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame


@view(
    name="subquery_on_a_table",
    version=1,
    events=["order.placed"],
    key=["log_partition", "log_offset", "event_time"],
    partition_by="event_time",
)
def subquery_on_a_table(placed: DataFrame) -> DataFrame:
    return placed.where("amount > (SELECT max(id) FROM range(10))").select("log_partition", "log_offset", "event_time")
