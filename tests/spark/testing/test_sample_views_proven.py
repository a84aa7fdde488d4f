"""The views of the project are proven, with their naive oracles, as their authors would do it."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import timedelta
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from anabranch.testing import prove
from support.landed_sample import sample_views

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
Rows = list[dict[str, Any]]


def departure_delays(events: Rows) -> Rows:
    hours: defaultdict[Any, list[int]] = defaultdict(list)
    for event in events:
        start = event["event_time"].replace(minute=0, second=0, microsecond=0)
        hours[event["origin"], start].append(event["dep_delay"])
    return [
        {
            "origin": origin,
            "window_start": start,
            "window_end": start + timedelta(hours=1),
            "flights": len(delays),
            "delayed": sum(delay > 15 for delay in delays),
            "delay_minutes": sum(delays),
            "average_delay": (Decimal(sum(delays)) / len(delays)).quantize(Decimal("0.001"), ROUND_HALF_UP),
        }
        for (origin, start), delays in hours.items()
    ]


def route_day(events: Rows) -> Rows:
    counts: defaultdict[Any, Counter[str]] = defaultdict(Counter)
    for event in events:
        kind = event["type"].removeprefix("flight.")
        if kind != "arrived" or event["arr_delay"] > 15:
            route = tuple(event[name] for name in ("origin", "dest", "carrier"))
            counts[event["event_time"].date(), *route]["arrived_late" if kind == "arrived" else kind] += 1
    kinds = ("scheduled", "departed", "cancelled", "arrived_late")
    names = ("day", "origin", "dest", "carrier", *kinds)
    return [dict(zip(names, (*at, *(count[k] for k in kinds)), strict=True)) for at, count in counts.items()]


def aircraft_now(events: Rows) -> Rows:
    newest: dict[str, dict[str, Any]] = {}
    for event in sorted(events, key=lambda e: (e["event_time"], e["log_partition"], e["log_offset"])):
        if event["tailnum"] is not None:
            newest[event["tailnum"]] = event
    return [
        {
            "tailnum": tailnum,
            "last_flight": f"{event['carrier']}{event['flight']}",
            "last_airport": event["origin" if event["type"] == "flight.departed" else "dest"],
            "in_air": event["type"] == "flight.departed",
            "since": event["event_time"],
        }
        for tailnum, event in newest.items()
    ]


ORACLES = {"departure_delays": departure_delays, "route_day": route_day, "aircraft_now": aircraft_now}


@pytest.mark.parametrize("view", list(sample_views()), ids=lambda view: view.name)
def test_it_is_proven(spark: SparkSession, tmp_path: Path, view: Any) -> None:
    proof = prove(view, oracle=ORACLES[view.name], quick=True, keep=tmp_path)
    assert proof.logs == 8
    assert proof.streams == 1
