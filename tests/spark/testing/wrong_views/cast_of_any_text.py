"""Casts a text to a number, and the contract allows any text."""

# caught: PROOF_FAILS
# says: CAST_INVALID_INPUT

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@view(
    name="cast_of_any_text",
    version=1,
    events=["order.placed"],
    key=["log_partition", "log_offset", "event_time"],
    partition_by="event_time",
)
def cast_of_any_text(placed: DataFrame) -> DataFrame:
    x = F.col("coupon").cast("int")
    return placed.select("log_partition", "log_offset", "event_time", x.alias("x"))
