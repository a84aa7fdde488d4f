"""Casts an integer to a smaller one."""

# caught: PROOF_FAILS
# says: CAST_OVERFLOW

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@view(
    name="cast_that_overflows",
    version=1,
    events=["order.placed"],
    key=["log_partition", "log_offset", "event_time"],
    partition_by="event_time",
)
def cast_that_overflows(placed: DataFrame) -> DataFrame:
    x = F.col("amount").cast("int")
    return placed.select("log_partition", "log_offset", "event_time", x.alias("x"))
