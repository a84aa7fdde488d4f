"""The topics of the sample domain: the life cycle of flights, and the weather at their origin."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from anabranch.contracts import Contract, Topic

_HERE = Path(__file__).parent


def _contract(name: str, version: int = 1) -> Contract:
    return Contract.from_file(_HERE / f"{name}.v{version}.json")


FLIGHTS = Topic(
    "flights",
    contracts=tuple(
        _contract(name) for name in ("flight.scheduled", "flight.departed", "flight.arrived", "flight.cancelled")
    ),
    partitions=4,
    retention=timedelta(days=30),
    allowed_lateness=timedelta(hours=2),
)

WEATHER = Topic(
    "weather",
    contracts=(_contract("weather.observed"),),
    partitions=1,
    retention=timedelta(days=30),
    allowed_lateness=timedelta(hours=2),
)
