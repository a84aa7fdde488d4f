"""A Python function that throws dice."""

# caught: VIEW_IMPURE
# says: comes from the module random

from __future__ import annotations

import random

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@F.udf("bigint")
def thrown(order):
    return random.randint(1, 6)


@view(
    name="python_random",
    version=1,
    events=["order.placed"],
    key=["log_partition", "log_offset", "event_time"],
    partition_by="event_time",
)
def python_random(placed: DataFrame) -> DataFrame:
    x = thrown("order")
    return placed.select("log_partition", "log_offset", "event_time", x.alias("x"))
