"""A Python function that sorts what has no order."""

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@F.udf("string")
def joined(items):
    return ",".join(sorted(set(items or [])))


@view(
    name="sorted_in_python",
    version=1,
    events=["order.placed"],
    key=["log_partition", "log_offset", "event_time"],
    partition_by="event_time",
)
def sorted_in_python(placed: DataFrame) -> DataFrame:
    x = joined("items")
    return placed.select("log_partition", "log_offset", "event_time", x.alias("x"))
