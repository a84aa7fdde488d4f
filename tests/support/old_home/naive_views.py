"""What the views of the old home say, in plain Python over the records as landing has decided them."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from anabranch.core.settings import Settings
from anabranch.ingest.kafka.admin import begin_offsets, end_offsets
from anabranch.lake import open_table
from anabranch.lake.layout import VersionRef, landing_table
from confluent_kafka import Consumer, TopicPartition

Row = Mapping[str, Any]
_COLUMNS = [
    "partition",
    "offset",
    "value",
    "decision",
    "late",
    "type",
    "source",
    "event_id",
    "event_time",
    "released_from",
]
REST = timedelta(hours=6)


def log_records(settings: Settings, topic: str) -> dict[tuple[int, int], bytes | None]:
    """All that the broker holds of a topic."""
    consumer = Consumer({"bootstrap.servers": settings.brokers, "group.id": "naive", "enable.auto.commit": False})
    begin, end = begin_offsets(settings, topic), end_offsets(settings, topic)
    found: dict[tuple[int, int], bytes | None] = {}
    consumer.assign([TopicPartition(topic, partition, offset) for partition, offset in begin.items()])
    while len(found) < sum(end[p] - begin[p] for p in begin):
        message = consumer.poll(20)
        assert message is not None
        assert message.error() is None
        partition, offset, value = message.partition(), message.offset(), message.value()
        assert partition is not None
        assert offset is not None
        assert not isinstance(value, str)
        found[partition, offset] = value
    consumer.close()
    return found


def landing_rows(settings: Settings, topic: str) -> list[dict[str, Any]]:
    table = open_table(landing_table(settings, topic))
    assert table is not None
    rows: list[dict[str, Any]] = table.to_pyarrow_table(columns=_COLUMNS).to_pylist()
    return rows


def speed_rows(settings: Settings, view: str, version: int, columns: Iterable[str]) -> set[tuple[Any, ...]]:
    """The rows of a speed half; none may be there twice."""
    table, names = open_table(VersionRef(settings, view, version).speed_table), list(columns)
    assert table is not None
    rows = [tuple(row[name] for name in names) for row in table.to_pyarrow_table(columns=names).to_pylist()]
    assert len(rows) == len(set(rows))
    return set(rows)


def _events(rows: Iterable[Row], *types: str, late: bool = False) -> Iterator[tuple[Row, dict[str, Any]]]:
    for row in rows:
        if row["decision"] == "valid" and row["type"] in types and (late or not row["late"]):
            yield row, json.loads(row["value"])["data"]


def _hour(row: Row) -> datetime:
    time: datetime = row["event_time"]
    return time.replace(minute=0, second=0, microsecond=0)


def departure_delays(rows: Iterable[Row]) -> set[tuple[Any, ...]]:
    """origin, window_start, flights, delayed, delay_minutes."""
    found: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for row, data in _events(rows, "flight.departed"):
        found[data["origin"], _hour(row)].append(data["dep_delay"])
    return {(*key, len(each), sum(n > 15 for n in each), sum(each)) for key, each in found.items()}


def departure_delays_by_carrier(rows: Iterable[Row]) -> set[tuple[Any, ...]]:
    """origin, carrier, window_start, flights, delayed, delay_minutes, longest."""
    found: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for row, data in _events(rows, "flight.departed"):
        found[data["origin"], data["carrier"], _hour(row)].append(data["dep_delay"])
    return {(*key, len(each), sum(n > 30 for n in each), sum(each), max(each)) for key, each in found.items()}


def aircraft_now(rows: Iterable[Row]) -> set[tuple[Any, ...]]:
    """tailnum, last_flight, last_airport, in_air, since. Late events count: nothing of it is ever closed."""
    newest: dict[str, tuple[Any, ...]] = {}
    for row, data in _events(rows, "flight.departed", "flight.arrived", late=True):
        if data.get("tailnum") is None:
            continue
        in_air = row["type"] == "flight.departed"
        airport = data["origin"] if in_air else data["dest"]
        state = (
            row["event_time"],
            row["partition"],
            row["offset"],
            f"{data['carrier']}{data['flight']}",
            airport,
            in_air,
        )
        newest[data["tailnum"]] = max(newest.get(data["tailnum"], state), state)
    return {(tailnum, s[3], s[4], s[5], s[0]) for tailnum, s in newest.items()}


def hour_and_weather(flights: Iterable[Row], weather: Iterable[Row]) -> set[tuple[Any, ...]]:
    """origin, hour, departed, observed."""
    found: dict[tuple[Any, ...], list[int]] = defaultdict(lambda: [0, 0])
    for row, data in _events(flights, "flight.departed"):
        found[data["origin"], _hour(row)][0] += 1
    for row, data in _events(weather, "weather.observed"):
        found[data["origin"], _hour(row)][1] += 1
    return {(*key, *counts) for key, counts in found.items()}


def turns(rows: Iterable[Row], closed: datetime) -> set[tuple[Any, ...]]:
    """tailnum, began, rested_at, flights, of those that had rested at ``closed``."""
    by_aircraft: dict[str, list[datetime]] = defaultdict(list)
    for row, data in _events(rows, "flight.departed"):
        if data.get("tailnum") is not None:
            by_aircraft[data["tailnum"]].append(row["event_time"])
    found = set()
    for tailnum, times in by_aircraft.items():
        turn: list[datetime] = []
        for time in [*sorted(times), datetime.max.replace(tzinfo=closed.tzinfo)]:
            if turn and time > turn[-1] + REST:
                if (rested := turn[-1] + REST) <= closed:
                    found.add((tailnum, turn[0], rested, len(turn)))
                turn = []
            turn.append(time)
    return found
