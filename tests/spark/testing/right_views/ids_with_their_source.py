"""Each event is a row, known by its id and source."""

from __future__ import annotations

from anabranch.views import view
from pyspark.sql import DataFrame


@view(
    name="ids_with_their_source",
    version=1,
    events=["order.paid"],
    key=["source", "event_id", "event_time"],
    partition_by="event_time",
)
def ids_with_their_source(paid: DataFrame) -> DataFrame:
    return paid.select("source", "event_id", "event_time", "order", "fee")
