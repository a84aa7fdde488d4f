"""Divides by an amount that can be 0."""

# caught: PROOF_FAILS
# says: DIVIDE_BY_ZERO

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@view(
    name="division_by_zero",
    version=1,
    events=["order.paid"],
    key=["log_partition", "log_offset", "event_time"],
    partition_by="event_time",
)
def division_by_zero(paid: DataFrame) -> DataFrame:
    x = F.lit(100) / F.col("amount")
    return paid.select("log_partition", "log_offset", "event_time", x.alias("x"))
