"""Departure delays per hour and airport."""

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@view(
    name="departure_delays",
    version=1,
    events=["flight.departed"],
    key=["origin", "window_start"],
    partition_by="window_start",
)
def departure_delays(departed: DataFrame) -> DataFrame:
    """Flights, flights delayed over 15 minutes and minutes of delay, per hour of scheduled departure and origin."""
    hourly = departed.groupBy(F.window("event_time", "1 hour"), "origin").agg(
        F.count("*").alias("flights"),
        F.count_if(F.col("dep_delay") > 15).alias("delayed"),
        F.sum("dep_delay").alias("delay_minutes"),
    )
    return hourly.select(
        "origin",
        F.col("window.start").alias("window_start"),
        F.col("window.end").alias("window_end"),
        "flights",
        "delayed",
        "delay_minutes",
        # Computed from two exact sums, so it is equal in both paths.
        (F.col("delay_minutes") / F.col("flights").cast("decimal(18,0)")).cast("decimal(18,3)").alias("average_delay"),
    )
