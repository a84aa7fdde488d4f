"""Version 2 of ``departure_delays``, which the demo's second act deploys into ``spark_jobs/views``.

It also groups by carrier (another key), adds the longest delay (a new column), and counts a flight as delayed after 30
minutes instead of 15.
"""

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@view(
    name="departure_delays",
    version=2,
    events=["flight.departed"],
    key=["origin", "carrier", "window_start"],
    partition_by="window_start",
)
def departure_delays(departed: DataFrame) -> DataFrame:
    """Flights, flights delayed over 30 minutes, minutes of delay and the longest one, per hour, origin and carrier."""
    hourly = departed.groupBy(F.window("event_time", "1 hour"), "origin", "carrier").agg(
        F.count("*").alias("flights"),
        F.count_if(F.col("dep_delay") > 30).alias("delayed"),
        F.sum("dep_delay").alias("delay_minutes"),
        F.max("dep_delay").alias("longest"),
    )
    return hourly.select(
        "origin",
        "carrier",
        F.col("window.start").alias("window_start"),
        "flights",
        "delayed",
        "delay_minutes",
        "longest",
    )
