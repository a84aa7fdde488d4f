"""Two days of real flights, landed by the twin, and every view served from them: the speed half as its writer leaves
it, the batch half rebuilt and published."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

import pyarrow as pa
from anabranch.compute.batch.publish import publish
from anabranch.compute.batch.rebuild import rebuild
from anabranch.compute.speed.table import SpeedTable
from anabranch.core.engine.spark import small
from anabranch.core.settings import Settings
from anabranch.ingest.landing.table.schema import landing_schema
from anabranch.lake.cut import Cut, Position
from anabranch.lake.layout import VersionRef
from anabranch.views import Registry, View
from anabranch.views.model.definition import CHANGED, PARTITION_DATE
from anabranch.views.model.handle import ViewHandle
from anabranch.views.selection.inputs import rows_at

from support import sample_events
from support.landed_sample import DECLARED, FLIGHTS, Landing, flight_views

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAYS, EPOCHS = 2, 6
VIEWS = {view.name: view for view in flight_views()}
REGISTRY = Registry(tuple(VIEWS.values()), DECLARED)


@dataclass(frozen=True)
class World:
    settings: Settings
    landing: Landing

    @property
    def days(self) -> list[date]:
        return sorted({row["event_date"] for row in self.landing.rows})


def land(settings: Settings) -> World:
    landing = Landing(settings)
    landing.land(*sample_events.sliced(sample_events.flights(DAYS, 11, late=0.02), DAYS, EPOCHS))
    assert landing.rows[0].keys() <= set(landing_schema(FLIGHTS).names)
    return World(settings, landing)


def serve(spark: SparkSession, world: World, view: View, epoch: int | None = None) -> None:
    """The speed half up to ``epoch``, through the writer of its first micro-batch."""
    session = small(spark)
    cut = Cut({"flights": Position(epoch or world.landing.epoch, {})})
    rows = rows_at(session, ViewHandle(world.settings, view, FLIGHTS), cut, None, late=False).toArrow()
    rows = rows.append_column(CHANGED, pa.array([cut.epoch("flights")] * rows.num_rows, pa.int64()))
    uri = VersionRef(world.settings, view.name, view.version).speed_table
    table = SpeedTable(uri, view, rows.schema)
    files = table.stage(session.createDataFrame(rows), 0)
    table.refresh(files, table.note("checkpoint:0", cut, rows=rows.num_rows))


def publish_batch(spark: SparkSession, world: World, view: View, run: str = "reprocess-1") -> None:
    handle = ViewHandle(world.settings, view, FLIGHTS)
    build = rebuild(small(spark), handle, world.days, run)
    publish(handle, build, world.days)


__all__ = ["PARTITION_DATE", "REGISTRY", "VIEWS", "World", "land", "publish_batch", "serve"]
