"""A Python function that looks at the clock."""

# caught: VIEW_IMPURE
# says: datetime.datetime.now

from __future__ import annotations

from datetime import datetime

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@F.udf("bigint")
def age(event_time):
    return (datetime.now() - event_time).days  # noqa: DTZ005 - the mistake


@view(
    name="python_clock",
    version=1,
    events=["order.placed"],
    key=["log_partition", "log_offset", "event_time"],
    partition_by="event_time",
)
def python_clock(placed: DataFrame) -> DataFrame:
    x = age("event_time")
    return placed.select("log_partition", "log_offset", "event_time", x.alias("x"))
