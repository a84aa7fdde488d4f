"""Three days of departures, landed without a broker in many epochs, and the stream of a view that has them all."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from anabranch.compute.speed.view_stream import catch_up
from anabranch.core.settings import Settings
from anabranch.views.model.handle import ViewHandle

from support.landed_sample import FLIGHTS, Event, Landing, sample_views

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DELAYS = sample_views().get("departure_delays")
_BEGIN = datetime(2013, 1, 1, 5, tzinfo=UTC)
_EPOCHS, _HOURS = 24, 3


def departed(hours: float) -> Event:
    """So many hours behind the first one."""
    at = _BEGIN + timedelta(hours=hours)
    data = {"origin": "JFK", "dest": "ATL", "carrier": "AA", "flight": 1, "dep_delay": 20, "tailnum": "N1"}
    return Event("flight.departed", at, f"{at:%d %H:%M}", data)


def history(spark: SparkSession, settings: Settings) -> Landing:
    landing = Landing(settings)
    landing.land(*([departed(epoch * _HOURS), departed(epoch * _HOURS + 1)] for epoch in range(_EPOCHS)))
    catch_up(spark, ViewHandle(settings, DELAYS, FLIGHTS))
    return landing
