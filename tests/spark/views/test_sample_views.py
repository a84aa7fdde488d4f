"""The sample views against naive oracles in plain Python, on random landed events."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from anabranch.core.settings import Settings
from anabranch.lake.layout import landing_table
from anabranch.views import View
from anabranch.views.selection.inputs import events_of, frames
from support.landed_sample import FLIGHTS, Event, Landing, sample_views

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
START = datetime(2013, 1, 1, 22, tzinfo=UTC)
Row = tuple[Any, ...]


def random_events(random: Random, count: int) -> list[Event]:
    """Few airports, aircraft and instants, so that groups, ties and repeated ids are frequent."""
    found = []
    for _ in range(count):
        kind = random.choice(FLIGHTS.event_types)
        data: dict[str, Any] = {
            "origin": random.choice(["JFK", "LGA"]),
            "dest": random.choice(["ATL", "ORD"]),
            "carrier": random.choice(["AA", "UA"]),
            "flight": random.randint(1, 3),
            "tailnum": random.choice(["N1", "N2", None]),
        }
        delay = {"flight.departed": "dep_delay", "flight.arrived": "arr_delay"}.get(kind)
        if delay:
            data[delay] = random.choice([-5, 0, 15, 16, 120])
        time = START + timedelta(minutes=random.choice([0, 30, 59, 60, 119, 120, 240]))
        name = f"{kind}/{random.randint(1, count * 2)}"
        found.append(Event(kind, time, name, data, random.randint(0, 3), broken=random.random() < 0.05))
    return found


def valid(landing: Landing) -> list[dict[str, Any]]:
    """The events of the log as a view sees them: data beside the envelope."""
    rows = [row for row in landing.rows if row["decision"] == "valid"]
    return [{**row, **row[FLIGHTS.newest(row["type"]).column]} for row in rows]


def departure_delays(events: Iterable[Mapping[str, Any]]) -> set[Row]:
    hours: defaultdict[Row, list[int]] = defaultdict(list)
    for event in events:
        if event["type"] == "flight.departed":
            start = event["event_time"].replace(minute=0)
            hours[event["origin"], start, start + timedelta(hours=1)].append(event["dep_delay"])
    return {(*key, len(d), sum(x > 15 for x in d), sum(d), _average(sum(d), len(d))) for key, d in hours.items()}


def _average(total: int, count: int) -> Decimal:
    return (Decimal(total) / Decimal(count)).quantize(Decimal("0.001"), ROUND_HALF_UP)


def route_day(events: Iterable[Mapping[str, Any]]) -> set[Row]:
    counts: defaultdict[Row, Counter[str]] = defaultdict(Counter)
    for event in events:
        kind = event["type"].removeprefix("flight.")
        if kind == "arrived" and event["arr_delay"] <= 15:
            continue
        key = (event["event_time"].date(), event["origin"], event["dest"], event["carrier"])
        counts[key][kind] += 1
    kinds = ("scheduled", "departed", "cancelled", "arrived")
    return {(*key, *(count[kind] for kind in kinds)) for key, count in counts.items()}


def aircraft_now(events: Iterable[Mapping[str, Any]]) -> set[Row]:
    newest: dict[str, Mapping[str, Any]] = {}
    for event in sorted(events, key=lambda e: (e["event_time"], e["partition"], e["offset"])):
        if event["type"] in ("flight.departed", "flight.arrived") and event["tailnum"]:
            newest[event["tailnum"]] = event
    return {_state(tailnum, event) for tailnum, event in newest.items()}


def _state(tailnum: str, event: Mapping[str, Any]) -> Row:
    in_air = event["type"] == "flight.departed"
    airport = event["origin"] if in_air else event["dest"]
    return (tailnum, f"{event['carrier']}{event['flight']}", airport, in_air, event["event_time"])


ORACLES = {"departure_delays": departure_delays, "route_day": route_day, "aircraft_now": aircraft_now}


def computed(spark: SparkSession, settings: Settings, view: View) -> list[dict[str, Any]]:
    landed = spark.read.format("delta").load(landing_table(settings, FLIGHTS.name))
    rows: list[dict[str, Any]] = view(*frames(events_of(landed, view, late=True), view, FLIGHTS)).toArrow().to_pylist()
    return rows


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_views_are_what_a_naive_reading_of_the_events_says(spark: SparkSession, settings: Settings, seed: int) -> None:
    random, landing = Random(seed), Landing(settings)
    landing.land(*(random_events(random, count) for count in (40, 1, 60)))
    events = valid(landing)
    assert len(events) < len(landing.rows), "no duplicate and no broken record: the events are too tame"
    for view in sample_views():
        rows = computed(spark, settings, view)
        assert {tuple(row.values()) for row in rows} == ORACLES[view.name](events), view.name
        keys = {tuple(row[column] for column in view.key) for row in rows}
        assert len(keys) == len(rows), f"{view.name}: the key doesn't identify a row"
