"""A join in the state of the stream, with a topic on each side."""

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@view(
    name="two_topics_as_a_stream",
    version=1,
    events=["order.placed", "customer.moved"],
    key=["log_partition", "log_offset", "moved_partition", "moved_offset", "event_time"],
    partition_by="event_time",
    lookback="2 hours",
)
def two_topics_as_a_stream(placed: DataFrame, moved: DataFrame) -> DataFrame:
    other = moved.selectExpr(
        "customer AS who", "event_time AS at", "city", "log_partition AS moved_partition", "log_offset AS moved_offset"
    )
    near = F.expr("customer = who AND event_time BETWEEN at AND at + INTERVAL 2 HOURS")
    columns = ["log_partition", "log_offset", "moved_partition", "moved_offset", "event_time", "city"]
    return placed.join(other, near).select(*columns)
