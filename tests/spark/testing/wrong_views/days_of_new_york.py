"""Days of New York are partitions, but reach into two UTC days."""

# caught: PROOF_LOOKAHEAD|PROOF_LOOKBACK
# says: but look

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
    refresh="partitions",
)
def days_of_new_york(placed: DataFrame) -> DataFrame:
    day = F.to_date(F.from_utc_timestamp("event_time", "America/New_York")).alias("day")
    return placed.groupBy(day, "customer").agg(F.count("*").alias("x"))
