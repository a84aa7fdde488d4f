"""A Python function per group that takes the first row that comes."""

# caught: PROOF_ORDER|PROOF_SPREAD
# says: gets its rows in any order

from __future__ import annotations

import pandas as pd
from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def first(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.head(1)


@view(
    name="pandas_first_row",
    version=1,
    events=["order.placed"],
    key=["day", "customer"],
    partition_by="day",
    refresh="partitions",
)
def pandas_first_row(placed: DataFrame) -> DataFrame:
    days = placed.select(F.to_date("event_time").alias("day"), "customer", "order")
    return days.groupBy("day", "customer").applyInPandas(first, "day date, customer string, order string")
