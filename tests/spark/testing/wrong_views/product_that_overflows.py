"""Multiplies an integer that the contract doesn't bound."""

# caught: PROOF_FAILS
# says: the event e

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@view(
    name="product_that_overflows",
    version=1,
    events=["order.placed"],
    key=["log_partition", "log_offset", "event_time"],
    partition_by="event_time",
)
def product_that_overflows(placed: DataFrame) -> DataFrame:
    x = F.col("amount") * 100
    return placed.select("log_partition", "log_offset", "event_time", x.alias("x"))
