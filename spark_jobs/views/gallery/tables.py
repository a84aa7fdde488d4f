"""Gallery: several topics: as-of joins, tables built from events, saved searches."""

from __future__ import annotations

from anabranch.views import view
from anabranch.views.joins import as_of
from anabranch.views.saved_searches import matches
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@view(
    name="departed_in_weather",
    version=1,
    events=["flight.departed", "weather.observed"],
    key=["departed_at", "log_partition", "log_offset"],
    partition_by="departed_at",
    lookback="3 hours",
    refresh="partitions",
)
def departed_in_weather(departed: DataFrame, weather: DataFrame) -> DataFrame:
    """As-of join: each departure with the weather at that time, not with the latest weather."""
    told = weather.select("event_time", "log_partition", "log_offset", "origin", "temp", "visib")
    joined = as_of(departed, told, on="origin", into="weather", within="3 hours")
    return joined.select(
        F.col("event_time").alias("departed_at"), "log_partition", "log_offset", "origin", "dep_delay",
        "weather.temp", "weather.visib", F.col("weather.event_time").alias("observed_at"),
    )  # fmt: skip


@view(
    name="seats_flown",
    version=1,
    events=["flight.departed"],
    tables=["plane.registered"],
    key=["day", "manufacturer"],
    partition_by="day",
    refresh="partitions",
)
def seats_flown(departed: DataFrame, registered: DataFrame) -> DataFrame:
    """A stream joined with a table with history: the seats that a plane had when it departed."""
    flown = as_of(departed, registered, on="tailnum", into="plane")
    maker = F.coalesce("plane.manufacturer", F.lit("unknown")).alias("manufacturer")
    day = F.to_date("event_time").alias("day")
    return flown.groupBy(day, maker).agg(F.count("*").alias("flights"), F.sum("plane.seats").alias("seats"))


@view(
    name="fleet_now",
    version=1,
    events=["flight.departed", "plane.registered"],
    key=["tailnum"],
    refresh="partitions",
)
def fleet_now(departed: DataFrame, registered: DataFrame) -> DataFrame:
    """Two tables built from events, joined: it changes when either side does. It includes planes that never flew."""
    newest = ("event_time", "log_partition", "log_offset")
    last = departed.where("tailnum IS NOT NULL").groupBy("tailnum")
    flights = last.agg(F.max(F.struct(*newest, "origin", "dest")).alias("flight"), F.count("*").alias("flights"))
    planes = registered.groupBy("tailnum").agg(F.max(F.struct(*newest, "model", "seats")).alias("plane"))
    return planes.join(flights, "tailnum", "full_outer").select(
        "tailnum", "plane.model", "plane.seats", "flight.dest", F.coalesce("flights", F.lit(0)).alias("flights")
    )


@view(
    name="alerts",
    version=1,
    events=["flight.departed"],
    tables=["search.saved", "search.removed"],
    key=["departed_at", "log_partition", "log_offset", "search"],
    partition_by="departed_at",
    refresh="partitions",
)
def alerts(departed: DataFrame, saved: DataFrame, removed: DataFrame) -> DataFrame:
    """Saved searches: each departure with every search that it matches, in the search's version at that time."""
    found = matches(departed, saved, removed, on=["origin", "dest", "carrier", "dep_delay"])
    return found.select(
        F.col("event_time").alias("departed_at"), "log_partition", "log_offset", "search", "origin", "dest", "dep_delay"
    )
