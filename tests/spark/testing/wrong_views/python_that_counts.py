"""A Python function that counts its calls."""

# caught: PROOF_ORDER|PROOF_SPREAD|PROOF_IMPURE
# says: a Python function depends on the order of rows

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@F.udf("bigint")
def numbered(order, seen=[]):  # noqa: B006 - the mistake
    seen.append(order)
    return len(seen)


@view(
    name="python_that_counts",
    version=1,
    events=["order.placed"],
    key=["log_partition", "log_offset", "event_time"],
    partition_by="event_time",
)
def python_that_counts(placed: DataFrame) -> DataFrame:
    x = numbered("order")
    return placed.select("log_partition", "log_offset", "event_time", x.alias("x"))
