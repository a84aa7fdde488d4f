"""A kappa view: where each aircraft is now."""

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def _state(events: DataFrame, airport: str, in_air: bool) -> DataFrame:
    flight = F.concat_ws("", "carrier", F.col("flight").cast("string"))
    # Structs are compared field by field: the newest by event time, ties by the position in the log.
    newest = F.struct(
        "event_time",
        "log_partition",
        "log_offset",
        flight.alias("last_flight"),
        F.col(airport).alias("last_airport"),
        F.lit(in_air).alias("in_air"),
    )
    return events.where(F.col("tailnum").isNotNull()).select("tailnum", newest.alias("state"))


@view(name="aircraft_now", version=1, events=["flight.departed", "flight.arrived"], key=["tailnum"])
def aircraft_now(departed: DataFrame, arrived: DataFrame) -> DataFrame:
    """The newest known state of each aircraft: its last flight and airport, and whether it is in the air."""
    states = _state(departed, "origin", True).unionByName(_state(arrived, "dest", False))
    newest = states.groupBy("tailnum").agg(F.max("state").alias("state"))
    return newest.select(
        "tailnum", "state.last_flight", "state.last_airport", "state.in_air", F.col("state.event_time").alias("since")
    )
