"""Two days of real flights, landed by the twin, and every view served from them: the speed half as its writer leaves
it, the batch half rebuilt and published."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from anabranch.batch import publish, rebuild
from anabranch.landing.schema import landing_schema
from anabranch.samples.flights import flight_events
from anabranch.settings import Settings
from anabranch.spark import small
from anabranch.speed.table import SpeedTable
from anabranch.tables import Cut, Position
from anabranch.tables.layout import speed_table
from anabranch.views import Registry, View
from anabranch.views.definition import CHANGED, PARTITION
from anabranch.views.inputs import rows_at
from landed import DECLARED, FLIGHTS, Event, Landing, gallery, sample_views

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIRST, DAYS, EPOCHS = date(2013, 1, 1), 2, 6
VIEWS = {v.name: v for v in (*sample_views(), *gallery()) if set(v.events) <= set(FLIGHTS.event_types)}
REGISTRY = Registry(tuple(VIEWS.values()), DECLARED)


@dataclass(frozen=True)
class World:
    settings: Settings
    landing: Landing

    @property
    def days(self) -> list[date]:
        return sorted({row["event_date"] for row in self.landing.rows})


def flights() -> list[Event]:
    """In the order in which they were published; a few come hours late, and a few reports are corrected."""
    chance, order = random.Random(11), []
    for row in flight_events(FIRST, DAYS, DECLARED).filter(topic="flights").iter_rows(named=True):
        delay = timedelta(hours=chance.randint(3, 30)) if chance.random() < 0.02 else timedelta(0)
        data = {name: _typed(value) for name, value in json.loads(row["data"]).items()}
        event = Event(row["event_type"], row["time"], row["id"], data, sum(row["key"].encode()) % 4, subject=row["key"])
        order.append((row["publish_time"] + delay, len(order), event))
        if row["event_type"] == "flight.departed" and chance.random() < 0.02:
            again = replace(event, id=f"{event.id}/corrected", data={**data, "dep_delay": chance.randint(0, 300)})
            order.append((row["publish_time"] + timedelta(hours=chance.randint(0, 20)), len(order), again))
    return [event for _, _, event in sorted(order, key=lambda entry: entry[:2])]


def _typed(value: Any) -> Any:
    if isinstance(value, str) and value[4:5] == "-":
        return datetime.fromisoformat(value) if "T" in value else date.fromisoformat(value)
    return value


def land(settings: Settings) -> World:
    landing, events = Landing(settings), flights()
    size = -(-len(events) // EPOCHS)
    landing.land(*(events[start : start + size] for start in range(0, len(events), size)))
    assert landing.rows[0].keys() <= set(landing_schema(FLIGHTS).names)
    return World(settings, landing)


def serve(spark: SparkSession, world: World, view: View, epoch: int | None = None) -> None:
    """The speed half up to ``epoch``, through the writer of its first micro-batch."""
    session = small(spark)
    cut = Cut({"flights": Position(epoch or world.landing.epoch, {})})
    rows = rows_at(session, world.settings, view, FLIGHTS, cut, None, late=False).toArrow()
    rows = rows.append_column(CHANGED, pa.array([cut.epoch("flights")] * rows.num_rows, pa.int64()))
    uri = speed_table(world.settings, view.name, view.version)
    table = SpeedTable(uri, view, rows.schema)
    files = table.stage(session.createDataFrame(rows), 0)
    table.refresh(files, table.note("checkpoint:0", cut, rows=rows.num_rows))


def publish_batch(spark: SparkSession, world: World, view: View, run: str = "reprocess-1") -> None:
    build = rebuild(small(spark), world.settings, view, FLIGHTS, world.days, run)
    publish(world.settings, view, build, world.days)


__all__ = ["PARTITION", "REGISTRY", "VIEWS", "World", "land", "publish_batch", "serve"]
