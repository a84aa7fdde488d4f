"""Adds integers that the contract doesn't bound."""

# caught: PROOF_FAILS
# says: ARITHMETIC_OVERFLOW

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@view(name="sum_that_overflows", version=1, events=["order.placed"], key=["hour", "customer"], partition_by="hour")
def sum_that_overflows(placed: DataFrame) -> DataFrame:
    hours = placed.groupBy(F.window("event_time", "1 hour"), "customer").agg(F.sum("amount").alias("x"))
    return hours.select(F.col("window.start").alias("hour"), "customer", "x")
