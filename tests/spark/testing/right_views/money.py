"""Decimals of the contract, added as they are."""

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@view(name="money", version=1, events=["order.billed"], key=["hour", "order"], partition_by="hour")
def money(billed: DataFrame) -> DataFrame:
    hours = billed.groupBy(F.window("event_time", "1 hour"), "order").agg(
        F.sum("net").alias("net"), F.max("tax").alias("tax")
    )
    return hours.select(F.col("window.start").alias("hour"), "order", "net", "tax")
