"""A table of another topic, as of the order's time; an oracle reads it naively."""

from __future__ import annotations

from anabranch.views import view
from anabranch.views.joins import as_of
from pyspark.sql import DataFrame


@view(
    name="city_of_the_order",
    version=1,
    events=["order.placed"],
    tables=["customer.moved"],
    key=["log_partition", "log_offset", "event_time"],
    partition_by="event_time",
    refresh="partitions",
)
def city_of_the_order(placed: DataFrame, moved: DataFrame) -> DataFrame:
    then = as_of(placed, moved, on="customer", into="moved")
    return then.select("log_partition", "log_offset", "event_time", "moved.city")


def oracle(events):
    def place(event):
        return event["event_time"], event["log_partition"], event["log_offset"]

    placed = [event for event in events if event["type"] == "order.placed"]
    rows = []
    for order in placed:
        moves = [e for e in events if e["type"] == "customer.moved" and e["customer"] == order["customer"]]
        known = [move for move in moves if move["event_time"] <= order["event_time"]]
        city = max(known, key=place)["city"] if known else None
        rows.append({n: order[n] for n in ("log_partition", "log_offset", "event_time")} | {"city": city})
    return rows
