"""Orders per customer since the beginning, a kappa view."""

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@view(name="running_counts", version=1, events=["order.placed"], key=["customer"])
def running_counts(placed: DataFrame) -> DataFrame:
    return placed.groupBy("customer").agg(F.count("*").alias("orders"), F.max("event_time").alias("last"))
