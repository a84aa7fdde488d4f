"""Sessions that go on after midnight are cut there."""

# caught: PROOF_LOOKAHEAD|PROOF_LOOKBACK
# says: but look

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@view(
    name="session_over_midnight",
    version=1,
    events=["order.placed"],
    key=["start", "customer"],
    partition_by="start",
    refresh="partitions",
)
def session_over_midnight(placed: DataFrame) -> DataFrame:
    sessions = placed.groupBy(F.session_window("event_time", "30 minutes"), "customer").agg(F.count("*").alias("x"))
    return sessions.select(F.col("session_window.start").alias("start"), "customer", "x")
