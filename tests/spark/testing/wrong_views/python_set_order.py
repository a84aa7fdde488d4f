"""A Python function that joins a set, which has no order."""

# caught: VIEW_IMPURE
# says: depends on the order of a set

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@F.udf("string")
def joined(items):
    return ",".join(set(items or []))


@view(
    name="python_set_order",
    version=1,
    events=["order.placed"],
    key=["log_partition", "log_offset", "event_time"],
    partition_by="event_time",
)
def python_set_order(placed: DataFrame) -> DataFrame:
    x = joined("items")
    return placed.select("log_partition", "log_offset", "event_time", x.alias("x"))
