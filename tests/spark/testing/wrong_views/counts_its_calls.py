"""Changes a number outside of the view each time it is called."""

# caught: VIEW_IMPURE
# says: outlives the call

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

calls = 0


@view(
    name="counts_its_calls",
    version=1,
    events=["order.placed"],
    key=["log_partition", "log_offset", "event_time"],
    partition_by="event_time",
)
def counts_its_calls(placed: DataFrame) -> DataFrame:
    global calls
    calls += 1
    return placed.select("log_partition", "log_offset", "event_time", F.lit(calls).alias("x"))
