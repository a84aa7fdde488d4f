"""The time since a customer's last order within two hours, by a processor over the days that new events touch."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from anabranch.views import view
from anabranch.views.processor import Row, Timers, process
from pyspark.sql import DataFrame


class Last:
    """When the customer ordered last."""

    def __init__(self) -> None:
        self.last: datetime | None = None

    def on_event(self, event: Row, timers: Timers) -> Iterator[Row]:
        place = {name: event[name] for name in ("event_time", "log_partition", "log_offset")}
        yield {**place, "last": self.last}
        self.last = event["event_time"]

    def on_timer(self, at: datetime, timers: Timers) -> Iterator[Row]:
        return iter(())


@view(
    name="since_the_last_order",
    version=1,
    events=["order.placed"],
    key=["log_partition", "log_offset", "event_time"],
    partition_by="event_time",
    lookback="2 hours",
    refresh="partitions",
)
def since_the_last_order(placed: DataFrame) -> DataFrame:
    returns = "event_time timestamp, log_partition int, log_offset long, last timestamp"
    return process(placed, "customer", Last, returns, forget_after="2 hours")
