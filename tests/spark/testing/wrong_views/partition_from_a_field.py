"""The promised day is the partition, and the contract allows any."""

# caught: PROOF_FAR
# says: is further from every event

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@view(
    name="partition_from_a_field",
    version=1,
    events=["order.placed"],
    key=["log_partition", "log_offset", "promised"],
    partition_by="promised",
    lookback="2 days",
    lookahead="2 days",
    refresh="partitions",
)
def partition_from_a_field(placed: DataFrame) -> DataFrame:
    known = placed.where(F.col("promised").isNotNull())
    return known.select("log_partition", "log_offset", "promised", "amount")
