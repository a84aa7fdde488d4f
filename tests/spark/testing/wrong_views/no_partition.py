"""The promised time is the partition, and is not always given."""

# caught: PROOF_PARTITION_NULL
# says: a row has no promised

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame


@view(
    name="no_partition",
    version=1,
    events=["order.placed"],
    key=["log_partition", "log_offset", "promised"],
    partition_by="promised",
)
def no_partition(placed: DataFrame) -> DataFrame:
    return placed.select("log_partition", "log_offset", "promised", "amount")
