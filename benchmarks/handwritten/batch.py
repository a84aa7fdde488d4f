"""Hourly departure delays from the landing table, rebuilt by one Spark job into a Delta table partitioned by day."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def hourly(departures: DataFrame) -> DataFrame:
    """Rows per origin and hour, with the day that they are stored under."""
    flight = F.col("flight_departed")
    return (
        departures.groupBy(F.window("event_time", "1 hour"), flight["origin"].alias("origin"))
        .agg(
            F.count("*").alias("flights"),
            F.count_if(flight["dep_delay"] > 15).alias("delayed"),
            F.sum(flight["dep_delay"]).alias("delay_minutes"),
        )
        .select(
            "origin",
            F.col("window.start").alias("window_start"),
            F.col("window.end").alias("window_end"),
            "flights",
            "delayed",
            "delay_minutes",
            (F.col("delay_minutes") / F.col("flights").cast("decimal(18,0)"))
            .cast("decimal(18,3)")
            .alias("average_delay"),
            F.to_date("window.start").alias("day"),
        )
    )


def run(spark: SparkSession, landing: str, target: str, first: date, last: date) -> None:
    """Compute the days from ``first`` to ``last`` and replace them in ``target`` in one commit."""
    departures = spark.read.format("delta").load(landing)
    departures = departures.where(
        (F.col("decision") == "valid")
        & (F.col("type") == "flight.departed")
        & F.col("event_date").between(F.lit(first), F.lit(last))
    )
    # One file a day instead of one for each task and day.
    rows = hourly(departures).repartition("day")
    rows.write.format("delta").mode("overwrite").partitionBy("day").save(target)
