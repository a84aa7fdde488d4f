"""Gives each row a random id."""

# caught: VIEW_IMPURE
# says: uuid gives a different result

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@view(
    name="a_uuid_each",
    version=1,
    events=["order.placed"],
    key=["log_partition", "log_offset", "event_time"],
    partition_by="event_time",
)
def a_uuid_each(placed: DataFrame) -> DataFrame:
    x = F.uuid()
    return placed.select("log_partition", "log_offset", "event_time", x.alias("x"))
