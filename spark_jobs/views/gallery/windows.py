"""Gallery: hopping, sliding and session windows, and calendar days of a time zone."""

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

NEW_YORK = "America/New_York"


@view(
    name="busy_hours",
    version=1,
    events=["flight.departed"],
    key=["origin", "window_start"],
    partition_by="window_start",
    lookahead="3 hours",
)
def busy_hours(departed: DataFrame) -> DataFrame:
    """Hopping window: departures of three hours, every hour. A window that starts at 23:00 ends on the next day."""
    hops = departed.groupBy(F.window("event_time", "3 hours", "1 hour"), "origin").agg(F.count("*").alias("flights"))
    return hops.select("origin", F.col("window.start").alias("window_start"), "flights")


@view(
    name="queue_before",
    version=1,
    events=["flight.departed"],
    key=["event_time", "log_partition", "log_offset"],
    partition_by="event_time",
    lookback="1 hour",
    refresh="partitions",
)
def queue_before(departed: DataFrame) -> DataFrame:
    """Sliding window, exact per event: the airport's departures in the hour up to and including this one."""
    hour = Window.partitionBy("origin").orderBy(F.unix_micros("event_time")).rangeBetween(-3_600_000_000, 0)
    return departed.select(
        "event_time",
        "log_partition",
        "log_offset",
        "origin",
        F.count("*").over(hour).alias("departures"),
        F.max("dep_delay").over(hour).alias("worst_delay"),
    )


@view(
    name="duty",
    version=1,
    events=["flight.departed", "flight.arrived"],
    key=["tailnum", "began"],
    partition_by="began",
    lookback="6 hours",
    lookahead="3 days",
    refresh="partitions",
)
def duty(departed: DataFrame, arrived: DataFrame) -> DataFrame:
    """Session window: an aircraft's duty until it rests for six hours; it may cross midnight and last three days."""
    moves = departed.select("event_time", "tailnum").unionByName(arrived.select("event_time", "tailnum"))
    sessions = moves.where("tailnum IS NOT NULL").groupBy(F.session_window("event_time", "6 hours"), "tailnum").count()
    return sessions.select(
        "tailnum",
        F.col("session_window.start").alias("began"),
        F.col("session_window.end").alias("rests_until"),
        F.col("count").alias("moves"),
    )


@view(
    name="local_day",
    version=1,
    events=["flight.departed"],
    key=["local_day", "origin"],
    partition_by="local_day",
    lookahead="5 hours",
    refresh="partitions",
)
def local_day(departed: DataFrame) -> DataFrame:
    """Calendar days of New York: 23, 24 or 25 hours long, starting four or five hours after UTC's."""
    day = F.to_date(F.from_utc_timestamp("event_time", NEW_YORK)).alias("local_day")
    return departed.groupBy(day, "origin").agg(
        F.count("*").alias("flights"),
        F.count_distinct("tailnum").alias("aircraft"),
    )
