"""A Python function per group that sorts its rows first."""

from __future__ import annotations

import pandas as pd
from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def first(rows: pd.DataFrame) -> pd.DataFrame:
    ordered = rows.sort_values(["event_time", "log_partition", "log_offset"])
    return ordered[["day", "customer", "order"]].head(1)


@view(
    name="pandas_sorted",
    version=1,
    events=["order.placed"],
    key=["day", "customer"],
    partition_by="day",
    refresh="partitions",
)
def pandas_sorted(placed: DataFrame) -> DataFrame:
    days = placed.select(
        F.to_date("event_time").alias("day"), "customer", "order", "event_time", "log_partition", "log_offset"
    )
    return days.groupBy("day", "customer").applyInPandas(first, "day date, customer string, order string")
