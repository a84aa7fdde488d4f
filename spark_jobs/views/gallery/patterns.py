"""Gallery: sequences of events, custom state, and events that correct earlier ones."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from anabranch.views import view
from anabranch.views.processor import Timers, process
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

REST = timedelta(hours=6)


@view(
    name="bad_runs",
    version=1,
    events=["flight.departed", "flight.cancelled"],
    key=["cancelled_at", "log_partition", "log_offset"],
    partition_by="cancelled_at",
    lookback="12 hours",
    refresh="partitions",
)
def bad_runs(departed: DataFrame, cancelled: DataFrame) -> DataFrame:
    """A sequence: three departures in a row that are over 30 minutes late, then a cancellation, within 12 hours, per
    carrier."""
    place = ("event_time", "log_partition", "log_offset")
    late = departed.select("carrier", *place, (F.coalesce("dep_delay", F.lit(0)) > 30).alias("late"))
    stops = cancelled.select("carrier", *place, F.lit(None).cast("boolean").alias("late"))
    in_order = Window.partitionBy("carrier").orderBy(*place)
    run = late.unionByName(stops)
    for back in (1, 2, 3):
        run = run.withColumn(f"late_{back}", F.lag("late", back).over(in_order))
    found = run.withColumn("began", F.lag("event_time", 3).over(in_order)).where(
        "late IS NULL AND late_1 AND late_2 AND late_3 AND event_time <= began + INTERVAL 12 HOURS"
    )
    return found.select(F.col("event_time").alias("cancelled_at"), "log_partition", "log_offset", "carrier", "began")


class Turns:
    """The state of one key: an aircraft's flights since its last rest."""

    def __init__(self) -> None:
        self.flights = 0
        self.began: datetime | None = None
        self.due: datetime | None = None

    def on_event(self, event: dict[str, Any], timers: Timers) -> Iterator[dict[str, Any]]:
        self.began = self.began or event["event_time"]
        self.flights += 1
        self.tailnum = event["tailnum"]
        if self.due:
            timers.clear(self.due)
        self.due = event["event_time"] + REST
        timers.set(self.due)
        yield from ()

    def on_timer(self, at: datetime, timers: Timers) -> Iterator[dict[str, Any]]:
        yield {"tailnum": self.tailnum, "began": self.began, "rested_at": at, "flights": self.flights}
        self.flights, self.began, self.due = 0, None, None


@view(
    name="turns",
    version=1,
    events=["flight.departed"],
    key=["tailnum", "began"],
    partition_by="began",
    lookback="6 hours",
    lookahead="3 days",
    closes=True,
)
def turns(departed: DataFrame) -> DataFrame:
    """Custom state: an aircraft's flights until a timer fires because none has followed for six hours."""
    # Buffered events are kept as they are, so select only the columns that are needed.
    known = departed.where("tailnum IS NOT NULL")
    known = known.select("tailnum", "event_time", "log_partition", "log_offset", "watermark")
    returns = "tailnum string, began timestamp, rested_at timestamp, flights int"
    return process(known, "tailnum", Turns, returns, forget_after="6 hours")


@view(
    name="delays_corrected",
    version=1,
    events=["flight.departed", "flight.cancelled"],
    key=["flight_date", "origin"],
    partition_by="flight_date",
    lookback="2 days",
    lookahead="2 days",
    refresh="partitions",
)
def delays_corrected(departed: DataFrame, cancelled: DataFrame) -> DataFrame:
    """Corrections: of several reports on one flight the latest one counts; a cancellation retracts it."""
    flight = ("flight_date", "carrier", "flight", "origin")
    place = ("event_time", "log_partition", "log_offset")
    said = departed.select(*flight, *place, "dep_delay")
    taken_back = cancelled.select(*flight, *place, F.lit(None).cast("bigint").alias("dep_delay"))
    # The date comes from the event's data: one that is years away would create an unexpected partition.
    near = F.abs(F.datediff("flight_date", F.to_date("event_time"))) <= 1
    reports = said.unionByName(taken_back).where(near)
    newest = reports.groupBy(*flight).agg(F.max(F.struct(*place, "dep_delay")).alias("newest"))
    return newest.groupBy("flight_date", "origin").agg(
        F.count("newest.dep_delay").alias("departed"),
        F.count_if(F.col("newest.dep_delay").isNull()).alias("cancelled"),
        F.sum("newest.dep_delay").alias("delay_minutes"),
    )
