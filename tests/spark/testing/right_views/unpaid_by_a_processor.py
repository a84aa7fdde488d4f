"""Orders that weren't paid within two hours, by a processor with timers that Spark's state keeps."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from anabranch.views import view
from anabranch.views.processor import Row, Timers, process
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

PATIENCE = timedelta(hours=2)
PLACE = ("event_time", "log_partition", "log_offset")


class Unpaid:
    """The orders of one number that nobody has paid yet, by the time until which they can be."""

    def __init__(self) -> None:
        self.waiting: dict[datetime, list[Row]] = {}

    def on_event(self, event: Row, timers: Timers) -> Iterator[Row]:
        if event["paid"]:
            for due in self.waiting:
                timers.clear(due)
            self.waiting.clear()
        else:
            due = event["event_time"] + PATIENCE
            self.waiting.setdefault(due, []).append({name: event[name] for name in (*PLACE, "order")})
            timers.set(due)
        return iter(())

    def on_timer(self, at: datetime, timers: Timers) -> Iterator[Row]:
        yield from self.waiting.pop(at)


@view(
    name="unpaid_by_a_processor",
    version=1,
    events=["order.placed", "order.paid"],
    key=["log_partition", "log_offset", "event_time"],
    partition_by="event_time",
    lookahead="2 hours",
    closes=True,
)
def unpaid_by_a_processor(placed: DataFrame, paid: DataFrame) -> DataFrame:
    columns = [*PLACE, "order", "watermark"]
    both = placed.select(*columns, F.lit(False).alias("paid")).union(paid.select(*columns, F.lit(True)))
    returns = "event_time timestamp, log_partition int, log_offset long, order string"
    return process(both, "order", Unpaid, returns, forget_after="2 hours")


def oracle(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each order all payments are looked through."""

    def paid(order: dict[str, Any]) -> bool:
        return any(
            e["type"] == "order.paid"
            and e["order"] == order["order"]
            and [e[name] for name in PLACE] > [order[name] for name in PLACE]
            and e["event_time"] <= order["event_time"] + PATIENCE
            for e in events
        )

    placed = [e for e in events if e["type"] == "order.placed"]
    over = [e for e in placed if e["watermark"] and e["event_time"] + PATIENCE < e["watermark"]]
    return [{name: e[name] for name in (*PLACE, "order")} for e in over if not paid(e)]
