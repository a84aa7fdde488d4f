"""Orders by the day that was promised, where one was: those days are the view's own."""

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@view(
    name="given_promises",
    version=1,
    events=["order.placed"],
    key=["log_partition", "log_offset", "event_time"],
    partition_by="event_time",
)
def given_promises(placed: DataFrame) -> DataFrame:
    late = (F.col("promised") < F.col("event_time")).alias("late")
    return placed.where(F.col("promised").isNotNull()).select(
        "log_partition", "log_offset", "event_time", "promised", late
    )
