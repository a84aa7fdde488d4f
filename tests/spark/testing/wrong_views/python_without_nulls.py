"""A Python function that forgets that a coupon can be missing."""

# caught: PROOF_FAILS
# says: NoneType

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@F.udf("string")
def upper(coupon):
    return coupon.upper()


@view(
    name="python_without_nulls",
    version=1,
    events=["order.placed"],
    key=["log_partition", "log_offset", "event_time"],
    partition_by="event_time",
)
def python_without_nulls(placed: DataFrame) -> DataFrame:
    x = upper("coupon")
    return placed.select("log_partition", "log_offset", "event_time", x.alias("x"))
