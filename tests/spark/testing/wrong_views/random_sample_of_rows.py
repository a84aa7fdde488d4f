"""Keeps a random tenth of the rows."""

# caught: VIEW_IMPURE
# says: rand gives a different result

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@view(
    name="random_sample_of_rows",
    version=1,
    events=["order.placed"],
    key=["log_partition", "log_offset", "event_time"],
    partition_by="event_time",
)
def random_sample_of_rows(placed: DataFrame) -> DataFrame:
    return placed.where(F.rand() < 0.1).select("log_partition", "log_offset", "event_time")
