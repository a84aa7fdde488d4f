"""Gallery: rankings, distinct counts, quantiles, rolling averages and comparisons with the week before."""

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F


@view(
    name="top_destinations",
    version=1,
    events=["flight.departed"],
    key=["window_start", "origin", "place"],
    partition_by="window_start",
    refresh="partitions",
)
def top_destinations(departed: DataFrame) -> DataFrame:
    """Top-n per window: the three destinations with the most departures in each hour; ties by name."""
    counted = departed.groupBy(F.window("event_time", "1 hour").alias("hour"), "origin", "dest").count()
    ranked = Window.partitionBy("hour", "origin").orderBy(F.desc("count"), "dest")
    placed = counted.withColumn("place", F.row_number().over(ranked)).where("place <= 3")
    return placed.select(
        F.col("hour.start").alias("window_start"), "origin", "place", "dest", F.col("count").alias("flights")
    )


@view(
    name="fleet_size",
    version=1,
    events=["flight.departed"],
    key=["day", "carrier"],
    partition_by="day",
    refresh="partitions",
)
def fleet_size(departed: DataFrame) -> DataFrame:
    """Distinct counts, exact and approximate (2 % standard error), and exact quantiles."""
    return departed.groupBy(F.to_date("event_time").alias("day"), "carrier").agg(
        F.count_distinct("tailnum").alias("aircraft"),
        F.approx_count_distinct("tailnum", 0.02).alias("about"),
        F.percentile("dep_delay", F.array(F.lit(0.5), F.lit(0.9))).alias("delay_p50_p90"),
    )


@view(
    name="rolling_day",
    version=1,
    events=["flight.departed"],
    key=["origin", "hour"],
    partition_by="hour",
    lookback="24 hours",
    refresh="partitions",
)
def rolling_day(departed: DataFrame) -> DataFrame:
    """A rolling average: the hour's departures and the mean of the last 24 hours; hours without departures count as
    zero."""
    hourly = departed.groupBy(F.date_trunc("hour", "event_time").alias("hour"), "origin").count()
    day = Window.partitionBy("origin").orderBy(F.unix_seconds("hour")).rangeBetween(-23 * 3600, 0)
    mean = (F.sum("count").over(day) / F.lit(24).cast("decimal(4,0)")).cast("decimal(18,3)")
    return hourly.select("origin", "hour", F.col("count").alias("flights"), mean.alias("mean_of_24_hours"))


@view(
    name="week_on_week",
    version=1,
    events=["flight.departed"],
    key=["day", "origin"],
    partition_by="day",
    lookback="7 days",
    refresh="partitions",
)
def week_on_week(departed: DataFrame) -> DataFrame:
    """Comparison with the same day of the previous week."""
    daily = departed.groupBy(F.to_date("event_time").alias("day"), "origin").count()
    before = daily.select(F.date_add("day", 7).alias("day"), "origin", F.col("count").alias("week_before"))
    return daily.join(before, ["day", "origin"], "left").select(
        "day", "origin", F.col("count").alias("flights"), F.coalesce("week_before", F.lit(0)).alias("week_before")
    )


@view(
    name="aircraft_sketch",
    version=1,
    events=["flight.departed"],
    key=["origin", "window_start"],
    partition_by="window_start",
)
def aircraft_sketch(departed: DataFrame) -> DataFrame:
    """Mergeable sketches: distinct aircraft over any range of hours by ``theta_union_agg``, within 1.6 % (4,096
    entries)."""
    hourly = departed.groupBy(F.window("event_time", "1 hour"), "origin").agg(
        F.expr("theta_sketch_agg(tailnum, 12)").alias("aircraft")
    )
    return hourly.select("origin", F.col("window.start").alias("window_start"), "aircraft")


@view(
    name="hours_of_day",
    version=1,
    events=["flight.departed"],
    key=["day", "origin"],
    partition_by="day",
    refresh="partitions",
)
def hours_of_day(departed: DataFrame) -> DataFrame:
    """A view over another view's rows. Both have the same cut: it calls that view's function on the same events."""
    hours = top_destinations(departed).where("place = 1")
    return hours.groupBy(F.to_date("window_start").alias("day"), "origin").agg(
        F.count("*").alias("hours"), F.max("flights").alias("most_flights")
    )
