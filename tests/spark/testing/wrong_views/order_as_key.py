"""Believes that an order is placed only once."""

# caught: PROOF_KEY
# says: rows share the key

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame


@view(name="order_as_key", version=1, events=["order.placed"], key=["order", "event_time"], partition_by="event_time")
def order_as_key(placed: DataFrame) -> DataFrame:
    return placed.select("order", "event_time", "amount")
