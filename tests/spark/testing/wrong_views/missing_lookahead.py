"""Two-hour windows that begin on one day and end on the next."""

# caught: PROOF_LOOKAHEAD
# says: lookahead says nothing

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@view(name="missing_lookahead", version=1, events=["order.placed"], key=["hour", "customer"], partition_by="hour")
def missing_lookahead(placed: DataFrame) -> DataFrame:
    hours = placed.groupBy(F.window("event_time", "2 hours", "1 hour"), "customer").agg(F.count("*").alias("x"))
    return hours.select(F.col("window.start").alias("hour"), "customer", "x")
