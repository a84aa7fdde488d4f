"""A Python function that remembers what it saw before."""

# caught: PROOF_ORDER|PROOF_SPREAD|PROOF_IMPURE
# says: a Python function depends on the order of rows

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@F.udf("boolean")
def is_new(order):
    seen = is_new.__dict__.setdefault("seen", set())
    new = order not in seen
    seen.add(order)
    return new


@view(
    name="python_that_remembers",
    version=1,
    events=["order.placed"],
    key=["log_partition", "log_offset", "event_time"],
    partition_by="event_time",
)
def python_that_remembers(placed: DataFrame) -> DataFrame:
    x = is_new("order")
    return placed.select("log_partition", "log_offset", "event_time", x.alias("x"))
