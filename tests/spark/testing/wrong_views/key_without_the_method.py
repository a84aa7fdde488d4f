"""Groups by hour and method, and names only the hour as key."""

# caught: PROOF_KEY
# says: rows share the key

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@view(name="key_without_the_method", version=1, events=["order.paid"], key=["hour"], partition_by="hour")
def key_without_the_method(paid: DataFrame) -> DataFrame:
    hours = paid.groupBy(F.window("event_time", "1 hour"), "method").agg(F.count("*").alias("x"))
    return hours.select(F.col("window.start").alias("hour"), "method", "x")
