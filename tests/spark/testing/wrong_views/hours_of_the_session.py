"""Hours of the day by the session's time zone."""

# caught: PROOF_TIME_ZONE
# says: depend on the session's time zone
# prove: time_zone=Asia/Kolkata

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@view(
    name="hours_of_the_session",
    version=1,
    events=["order.placed"],
    key=["log_partition", "log_offset", "event_time"],
    partition_by="event_time",
)
def hours_of_the_session(placed: DataFrame) -> DataFrame:
    x = F.hour("event_time")
    return placed.select("log_partition", "log_offset", "event_time", x.alias("x"))
