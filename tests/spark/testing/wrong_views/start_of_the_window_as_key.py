"""Groups by the start of a window instead of the window: the watermark is lost."""

# caught: VIEW_WATERMARK
# says: grouping by window.start loses the watermark

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@view(
    name="start_of_the_window_as_key", version=1, events=["order.placed"], key=["hour", "customer"], partition_by="hour"
)
def start_of_the_window_as_key(placed: DataFrame) -> DataFrame:
    start = F.window("event_time", "1 hour").start.alias("hour")
    return placed.groupBy(start, "customer").count()
