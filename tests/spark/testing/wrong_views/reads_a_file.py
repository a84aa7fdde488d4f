"""Reads a file while it is defined."""

# caught: VIEW_IMPURE
# says: it uses open()

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@view(
    name="reads_a_file",
    version=1,
    events=["order.placed"],
    key=["log_partition", "log_offset", "event_time"],
    partition_by="event_time",
)
def reads_a_file(placed: DataFrame) -> DataFrame:
    with open("/etc/hostname") as file:  # noqa: PTH123 - the mistake
        return placed.select("log_partition", "log_offset", "event_time", F.lit(file.read()).alias("x"))
