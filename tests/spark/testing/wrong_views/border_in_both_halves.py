"""Noon is counted in both halves of a day."""

# caught: PROOF_ORACLE
# says: read the same events differently

from __future__ import annotations

from collections import Counter
from typing import Any

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@view(
    name="border_in_both_halves",
    version=1,
    events=["order.placed"],
    key=["day", "half"],
    partition_by="day",
    refresh="partitions",
)
def border_in_both_halves(placed: DataFrame) -> DataFrame:
    hour, minute = F.hour("event_time"), F.minute("event_time")
    noon = (hour == 12) & (minute == 0)
    halves = F.when(noon, F.array(F.lit("am"), F.lit("pm"))).when(hour < 12, F.array(F.lit("am")))
    each = placed.select(
        F.to_date("event_time").alias("day"), F.explode(F.coalesce(halves, F.array(F.lit("pm")))).alias("half")
    )
    return each.groupBy("day", "half").agg(F.count("*").alias("orders"))


def oracle(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    halves = Counter((e["event_time"].date(), "am" if e["event_time"].hour < 12 else "pm") for e in events)
    return [{"day": day, "half": half, "orders": orders} for (day, half), orders in halves.items()]
