"""Sessions that end with their day."""

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@view(
    name="sessions_of_a_day",
    version=1,
    events=["order.placed"],
    key=["start", "customer"],
    partition_by="start",
    refresh="partitions",
)
def sessions_of_a_day(placed: DataFrame) -> DataFrame:
    day, session = F.to_date("event_time").alias("day"), F.session_window("event_time", "30 minutes")
    sessions = placed.groupBy(session, day, "customer").agg(F.count("*").alias("x"))
    return sessions.select(F.col("session_window.start").alias("start"), "customer", "x")
