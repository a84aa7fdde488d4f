"""A fee as the key."""

# caught: VIEW_COLUMNS
# says: can't identify a row

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@view(name="float_as_a_key", version=1, events=["order.paid"], key=["fee"])
def float_as_a_key(paid: DataFrame) -> DataFrame:
    return paid.groupBy("fee").agg(F.count("*").alias("x"))
