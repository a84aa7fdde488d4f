"""Payments within two hours of their order, as a stream of two sides."""

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@view(
    name="joined_within_two_hours",
    version=1,
    events=["order.placed", "order.paid"],
    key=["log_partition", "log_offset", "paid_partition", "paid_offset", "event_time"],
    partition_by="event_time",
    lookahead="2 hours",
)
def joined_within_two_hours(placed: DataFrame, paid: DataFrame) -> DataFrame:
    other = paid.selectExpr(
        "order AS of",
        "event_time AS at",
        "amount AS paid",
        "log_partition AS paid_partition",
        "log_offset AS paid_offset",
    )
    near = F.expr("order = of AND at BETWEEN event_time AND event_time + INTERVAL 2 HOURS")
    return placed.join(other, near).drop("of", "source", "event_id", "subject", "promised", "items")
