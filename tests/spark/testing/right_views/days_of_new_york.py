"""Days of New York, with the hours of the next and the last UTC day that they hold."""

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@view(
    name="days_of_new_york",
    version=1,
    events=["order.placed"],
    key=["day", "customer"],
    partition_by="day",
    lookback="1 day",
    lookahead="1 day",
    refresh="partitions",
)
def days_of_new_york(placed: DataFrame) -> DataFrame:
    day = F.to_date(F.from_utc_timestamp("event_time", "America/New_York")).alias("day")
    return placed.groupBy(day, "customer").agg(F.count("*").alias("x"))
