"""Every view of the gallery and the samples: rows are drawn and explained, and the view itself is the oracle."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import anabranch
import pyarrow as pa
import pytest
from anabranch.core.engine.spark import small
from anabranch.ingest.landing.table.schema import landing_schema
from anabranch.operate.explain import Part
from anabranch.testing._scenario import watermark
from anabranch.views import View
from anabranch.views.model.canonical import canonical
from anabranch.views.model.definition import WATERMARK
from anabranch.views.selection.inputs import events_of, frames
from support.explained_views import REGISTRY, VIEWS, World
from support.landed_sample import FLIGHTS
from support.processes import SLOW

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
Row = dict[str, Any]


class Oracle:
    """The author's function alone, over landed rows chosen by their places in the log."""

    def __init__(self, spark: SparkSession, world: World, view: View) -> None:
        self.view = view
        self._spark = small(spark)
        self._landed = {("flights", row["partition"], row["offset"]): row for row in world.landing.rows}
        self._watermark = watermark(world.landing.rows, view, FLIGHTS)

    def row(self, key: Row, places: Sequence[tuple[str, int, int]]) -> Row | None:
        from pyspark.sql import functions as F

        chosen = pa.Table.from_pylist([self._landed[place] for place in places], landing_schema(FLIGHTS))
        events = events_of(self._spark.createDataFrame(chosen).coalesce(1), self.view, late=True)
        events = events.withColumn(WATERMARK, F.lit(self._watermark).cast("timestamp"))
        rows = self.view(*frames(events, self.view, FLIGHTS)).toArrow().to_pylist()
        return next((row for row in rows if all(row[name] == value for name, value in key.items())), None)


def cells(row: Row | None) -> dict[str, Any] | None:
    return None if row is None else {name: canonical(value) for name, value in row.items()}


BATCH = {"delays_corrected", "duty"}
"""Views that are explained from their batch half, with late events; the others from their speed half."""
COUNTED: dict[str, Callable[[Row], int]] = {
    "time_in_air": lambda row: 2,
    "duty": lambda row: row["moves"],
    "turns": lambda row: row["flights"],
    "queue_before": lambda row: row["departures"],
    "busy_hours": lambda row: row["flights"],
    "local_day": lambda row: row["flights"],
    "week_on_week": lambda row: row["flights"] + row["week_before"],
    "plan_and_truth": lambda row: row["planned"] + row["left"],
    "never_arrived": lambda row: 1,
    "departure_delays": lambda row: row["flights"],
    "bad_runs": lambda row: 4,
}
"""How many events a row is made of, where the row says so."""


SOME = {"aircraft_now", "duty", "top_destinations", "turns"}
"""What every run of the tests explains; the others are left to `make sweep`."""
EACH = [pytest.param(v, id=v.name, marks=[] if v.name in SOME else [pytest.mark.sweep]) for v in VIEWS.values()]


@pytest.mark.parametrize("view", EACH)
def test_the_named_events_make_the_row(spark: SparkSession, serving: Callable[..., World], view: View) -> None:
    world = serving(view, batch=view.name in BATCH)
    rows = anabranch.read(view.name, settings=world.settings).to_arrow().to_pylist()
    row = random.Random(view.name).choice(rows)
    key = {name: row[name] for name in view.key}
    found = anabranch.explain(
        view.name, key, settings=world.settings, registry=REGISTRY, spark=spark, seconds=4.0 * SLOW
    )
    oracle, places = Oracle(spark, world, view), [event.place for event in found.events]

    assert found.verified
    assert cells(dict(found.row)) == cells(row) == cells(oracle.row(key, places))
    if found.finished and view.name in COUNTED:
        assert len(places) == COUNTED[view.name](row)
    told = [part for part in found.parts if part.effect is not None]
    assert told
    for part in told[:1]:
        without = oracle.row(key, [place for place in places if place != part.event.place])
        assert cells(without) == cells(expected(row, part))


def expected(row: Row, part: Part) -> Row | None:
    """What the explanation says of the row without this event."""
    assert part.effect is not None
    if part.effect.makes_it:
        return None
    return row | {change.column: change.without for change in part.effect.changes}
