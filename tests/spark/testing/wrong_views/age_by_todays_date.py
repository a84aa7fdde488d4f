"""An age is counted to the day on which the view happens to run."""

# caught: VIEW_IMPURE
# says: current_date gives a different result

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@view(
    name="age_by_todays_date",
    version=1,
    events=["order.placed"],
    key=["log_partition", "log_offset", "event_time"],
    partition_by="event_time",
)
def age_by_todays_date(placed: DataFrame) -> DataFrame:
    x = F.datediff(F.current_date(), "event_time")
    return placed.select("log_partition", "log_offset", "event_time", x.alias("x"))
