"""Takes the second part of a text that may have one."""

# caught: PROOF_FAILS
# says: INVALID_ARRAY_INDEX

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@view(
    name="second_part_of_a_text",
    version=1,
    events=["order.placed"],
    key=["log_partition", "log_offset", "event_time"],
    partition_by="event_time",
)
def second_part_of_a_text(placed: DataFrame) -> DataFrame:
    x = F.split("coupon", "-")[1]
    return placed.select("log_partition", "log_offset", "event_time", x.alias("x"))
