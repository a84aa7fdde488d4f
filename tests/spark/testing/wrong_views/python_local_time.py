"""A Python function that reads a time by the clock of the machine's place."""

# caught: VIEW_IMPURE
# says: datetime.datetime.fromtimestamp

from __future__ import annotations

from datetime import datetime

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@F.udf("bigint")
def hour(seconds):
    return datetime.fromtimestamp(seconds).hour  # noqa: DTZ006 - the mistake


@view(
    name="python_local_time",
    version=1,
    events=["order.placed"],
    key=["log_partition", "log_offset", "event_time"],
    partition_by="event_time",
)
def python_local_time(placed: DataFrame) -> DataFrame:
    x = hour(F.unix_timestamp("event_time"))
    return placed.select("log_partition", "log_offset", "event_time", x.alias("x"))
