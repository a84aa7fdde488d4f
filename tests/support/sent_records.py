"""What tests that send records ask of the log and of landing."""

from __future__ import annotations

from datetime import date

import confluent_kafka
from anabranch.core.settings import Settings
from anabranch.lake import latest_commit
from anabranch.lake.layout import VersionRef, landing_table
from anabranch_samples.faults import Faults
from anabranch_samples.producing import produce_flights
from anabranch_samples.publishing import Pace

VIEWS = ("departure_delays", "route_day", "aircraft_now")


def landed(settings: Settings, topic: str = "flights") -> int:
    """The records of a topic that have landed."""
    committed = latest_commit(landing_table(settings, topic))
    if committed is None or not committed.note.cut.positions:
        return 0
    return sum(committed.note.cut.positions[topic].offsets.values())


def speed_is_level(settings: Settings, view: str) -> bool:
    """Whether the stream of a view has all that has landed by now. Ask after ``landed``, not before: what lands in
    between would be missed."""
    here, there = (
        latest_commit(landing_table(settings, "flights")),
        latest_commit(VersionRef(settings, view, 1).speed_table),
    )
    return here is not None and there is not None and here.note.cut == there.note.cut


def send(settings: Settings, first: int) -> int:
    """A day of January's flights, without a pause; how many records the log got."""
    told = produce_flights(settings, date(2013, 1, first), 1, Pace(), Faults(duplicates=0.01), first, quiet=True)
    return sum(count for (topic, _, _), count in told.records.items() if topic == "flights")


def level(settings: Settings, sent: int) -> bool:
    """Whether all that was sent has landed, and every stream has it."""
    return landed(settings) == sent and all(speed_is_level(settings, view) for view in VIEWS)


def raw_producer(settings: Settings, **options: str | int) -> confluent_kafka.Producer:
    """A client for records as no contract has them: each is in the log once, in the order of sending. Without
    idempotence, a topic just made has its first batches in another order in one run of six: its leader isn't known yet,
    and what is sent again comes behind what followed it."""
    return confluent_kafka.Producer({"bootstrap.servers": settings.brokers, "enable.idempotence": True, **options})
