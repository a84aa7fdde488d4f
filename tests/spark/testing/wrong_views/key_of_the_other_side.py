"""The key comes from the side of an outer join that may be missing."""

# caught: PROOF_KEY
# says: rows share the key

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@view(
    name="key_of_the_other_side",
    version=1,
    events=["order.placed", "order.paid"],
    key=["of", "event_time"],
    partition_by="event_time",
    lookahead="2 hours",
    refresh="partitions",
)
def key_of_the_other_side(placed: DataFrame, paid: DataFrame) -> DataFrame:
    payments = paid.select(F.col("order").alias("of"), F.col("event_time").alias("at"))
    near = F.expr("order = of AND at BETWEEN event_time AND event_time + INTERVAL 2 HOURS")
    return placed.join(payments, near, "left").select("of", "event_time", "amount").distinct()
