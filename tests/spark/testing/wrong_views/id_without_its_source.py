"""Believes that ids of two sources are never the same."""

# caught: PROOF_KEY
# says: rows share the key

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame


@view(
    name="id_without_its_source",
    version=1,
    events=["order.placed"],
    key=["event_id", "event_time"],
    partition_by="event_time",
)
def id_without_its_source(placed: DataFrame) -> DataFrame:
    return placed.select("event_id", "event_time", "amount")
