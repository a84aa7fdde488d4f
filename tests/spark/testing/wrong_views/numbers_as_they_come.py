"""Numbers rows by where Spark has them."""

# caught: VIEW_IMPURE
# says: monotonically_increasing_id gives a different result

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@view(
    name="numbers_as_they_come",
    version=1,
    events=["order.placed"],
    key=["log_partition", "log_offset", "event_time"],
    partition_by="event_time",
)
def numbers_as_they_come(placed: DataFrame) -> DataFrame:
    x = F.monotonically_increasing_id()
    return placed.select("log_partition", "log_offset", "event_time", x.alias("x"))
