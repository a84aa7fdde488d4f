"""Counts an order's payments of all time, and declares a day."""

# caught: PROOF_LOOKAHEAD|PROOF_LOOKBACK
# says: but look

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@view(
    name="join_further_than_declared",
    version=1,
    events=["order.placed", "order.paid"],
    key=["log_partition", "log_offset", "event_time"],
    partition_by="event_time",
    lookback="1 day",
    lookahead="1 day",
    refresh="partitions",
)
def join_further_than_declared(placed: DataFrame, paid: DataFrame) -> DataFrame:
    paid = paid.groupBy(F.col("order").alias("of")).agg(F.count("*").alias("x"))
    return placed.join(paid, F.col("order") == F.col("of")).select("log_partition", "log_offset", "event_time", "x")
