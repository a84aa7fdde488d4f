"""Gallery: joins of two event types within a time range."""

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@view(
    name="time_in_air",
    version=1,
    events=["flight.departed", "flight.arrived"],
    key=["flight", "departed_at", "arrived_at"],
    partition_by="departed_at",
    lookahead="1 day",
    refresh="partitions",
)
def time_in_air(departed: DataFrame, arrived: DataFrame) -> DataFrame:
    """Inner join: each departure with the arrival of the same flight within a day."""
    together = F.expr(
        "d.carrier = a.carrier AND d.flight = a.flight AND d.origin = a.origin "
        "AND a.event_time > d.event_time AND a.event_time <= d.event_time + INTERVAL 24 HOURS"
    )
    pairs = departed.alias("d").join(arrived.alias("a"), together)
    flight = F.concat_ws("", "d.carrier", "d.flight", "d.origin").alias("flight")
    return pairs.groupBy(
        flight, F.col("d.event_time").alias("departed_at"), F.col("a.event_time").alias("arrived_at")
    ).agg(F.max(F.expr("timestampdiff(MINUTE, d.event_time, a.event_time)")).alias("minutes"))


@view(
    name="never_arrived",
    version=1,
    events=["flight.departed", "flight.arrived"],
    key=["flight", "departed_at", "log_partition", "log_offset"],
    partition_by="departed_at",
    lookahead="1 day",
    refresh="partitions",
    closes=True,
)
def never_arrived(departed: DataFrame, arrived: DataFrame) -> DataFrame:
    """Left anti join: departures without an arrival, once the watermark of the cut is a day later."""
    passed = departed.where("event_time + INTERVAL 24 HOURS < watermark")
    together = F.expr(
        "d.carrier = a.carrier AND d.flight = a.flight AND d.origin = a.origin "
        "AND a.event_time > d.event_time AND a.event_time <= d.event_time + INTERVAL 24 HOURS"
    )
    return (
        passed.alias("d")
        .join(arrived.alias("a"), together, "left_anti")
        .select(
            F.concat_ws("", "carrier", "flight", "origin").alias("flight"),
            F.col("event_time").alias("departed_at"),
            "log_partition",
            "log_offset",
            "tailnum",
        )
    )


@view(
    name="plan_and_truth",
    version=1,
    events=["flight.scheduled", "flight.departed"],
    key=["day", "origin", "flight"],
    partition_by="day",
    refresh="partitions",
)
def plan_and_truth(scheduled: DataFrame, departed: DataFrame) -> DataFrame:
    """Full outer join: flights that were planned and never left, or left without a plan, per day of the event."""

    def by_day(events: DataFrame, name: str) -> DataFrame:
        return events.groupBy(
            F.to_date("event_time").alias("day"), "origin", F.concat_ws("", "carrier", "flight").alias("flight")
        ).agg(F.count("*").alias(name))

    both = by_day(scheduled, "planned").join(by_day(departed, "left"), ["day", "origin", "flight"], "full")
    return both.select(
        "day",
        "origin",
        "flight",
        F.coalesce("planned", F.lit(0)).alias("planned"),
        F.coalesce("left", F.lit(0)).alias("left"),
    )
