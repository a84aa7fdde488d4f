"""A list outside of the view, which anybody can change."""

# caught: VIEW_IMPURE
# says: CUSTOMERS is mutable

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

CUSTOMERS = ["ann", "bob"]


@view(
    name="list_that_can_change",
    version=1,
    events=["order.placed"],
    key=["log_partition", "log_offset", "event_time"],
    partition_by="event_time",
)
def list_that_can_change(placed: DataFrame) -> DataFrame:
    return placed.where(F.col("customer").isin(CUSTOMERS)).select("log_partition", "log_offset", "event_time")
