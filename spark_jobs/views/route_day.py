"""Flights scheduled, departed, cancelled and late per day, route and carrier."""

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

ROUTE = ("origin", "dest", "carrier")


def _counted(events: DataFrame, name: str) -> DataFrame:
    return events.select("event_time", *ROUTE, F.lit(name).alias("what"))


@view(
    name="route_day",
    version=1,
    events=["flight.scheduled", "flight.departed", "flight.cancelled", "flight.arrived"],
    key=["day", "origin", "dest", "carrier"],
    partition_by="day",
)
def route_day(scheduled: DataFrame, departed: DataFrame, cancelled: DataFrame, arrived: DataFrame) -> DataFrame:
    """Flights scheduled, departed, cancelled and arrived over 15 minutes late, per UTC day of the event and route."""
    every = (
        _counted(scheduled, "scheduled")
        .unionByName(_counted(departed, "departed"))
        .unionByName(_counted(cancelled, "cancelled"))
        .unionByName(_counted(arrived.where(F.col("arr_delay") > 15), "arrived_late"))
    )
    daily = every.groupBy(F.window("event_time", "1 day"), *ROUTE).agg(
        *(
            F.count_if(F.col("what") == what).alias(what)
            for what in ("scheduled", "departed", "cancelled", "arrived_late")
        )
    )
    return daily.select(
        F.to_date("window.start").alias("day"), *ROUTE, "scheduled", "departed", "cancelled", "arrived_late"
    )
