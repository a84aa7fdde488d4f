"""How long it takes to explain a number of the landed year: the events behind it, and what each contributed."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

import anabranch
import pyarrow as pa
from anabranch.compute.batch.rebuild import cut_at
from anabranch.compute.speed.table import SpeedTable
from anabranch.lake.layout import VersionRef
from anabranch.operate.explain import Explanation
from anabranch.views import Registry, View, load_views
from anabranch.views.model.definition import CHANGED
from anabranch.views.model.handle import ViewHandle
from anabranch.views.selection.inputs import rows_at

from benchmarks.figures import Figure, Report, Table, percentile
from benchmarks.world import World

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAMPLES = ("departure_delays", "route_day", "aircraft_now")
GALLERY = ("duty", "time_in_air", "week_on_week", "queue_before")
QUICK = ("departure_delays", "duty", "time_in_air")
LIMIT = 10.0


@dataclass(frozen=True, slots=True)
class _Explained:
    seconds: float
    found: Explanation


def run(world: World) -> Report:
    folder = world.settings.project / "spark_jobs" / "views"
    chosen = world.pick(QUICK[:2], QUICK, (*SAMPLES, *GALLERY))
    shown = (*load_views(folder, world.declared), *load_views(folder / "gallery", world.declared_for_gallery))
    views = [view for view in shown if view.name in chosen]
    registry = Registry(tuple(views), world.declared)
    with world.spark() as spark:
        for view in views:
            _serve(spark, world, view)
        _explain(spark, world, registry, views[0], 1)  # the first of a process pays for Spark's warming up
        explained = {view.name: _explain(spark, world, registry, view, _rows(world)) for view in views}
    columns = ("view", "median", "slowest", "events behind a row", "verified", "contributions computed")
    return Report(
        "explain",
        "Explaining a number",
        f"`anabranch.explain` of {_rows(world)} rows of each view, drawn by chance, over {world.days} landed days, in "
        "a process whose Spark runs: events read from landing, found, held to the function, and their contributions.",
        (Table("", columns, tuple(_line(name, found) for name, found in explained.items())),),
        _figures(explained),
        samples={name: [round(each.seconds, 3) for each in found] for name, found in explained.items()},
    )


def _rows(world: World) -> int:
    return world.pick(1, 2, 5)


def _figures(explained: Mapping[str, list[_Explained]]) -> tuple[Figure, ...]:
    """Of each round, in which one row of each view is explained: the slowest and the median row."""
    rounds = list(zip(*([each.seconds for each in found] for found in explained.values()), strict=True))
    slowest, usual = tuple(map(max, rounds)), tuple(map(median, rounds))
    return (
        Figure("explain.slowest", "the slowest of one row of each view", slowest, " s", 1, LIMIT, at_least=False),
        Figure("explain.median", "the median of one row of each view", usual, " s", 1),
    )


def _serve(spark: SparkSession, world: World, view: View) -> None:
    """The speed half, made in one commit by the writer of a stream's first micro-batch."""
    cut = cut_at(world.settings, world.topic)
    uri = VersionRef(world.settings, view.name, view.version).speed_table
    rows = rows_at(spark, ViewHandle(world.settings, view, world.topic), cut, None, late=False)
    rows = rows.selectExpr("*", f"cast({cut.epoch(world.topic.name)} as bigint) as {CHANGED}")
    table = SpeedTable(uri, view, pa.schema(rows.limit(0).toArrow().schema))
    table.refresh(table.stage(rows, 0), table.note("benchmark:0", cut))


def _explain(spark: SparkSession, world: World, registry: Registry, view: View, count: int) -> list[_Explained]:
    rows = anabranch.read(view.name, settings=world.settings).to_arrow().select(list(view.key))
    found = []
    for number in random.Random(view.name).sample(range(rows.num_rows), count):
        (key,) = rows.slice(number, 1).to_pylist()
        begun = time.perf_counter()
        explanation = anabranch.explain(view.name, key, settings=world.settings, registry=registry, spark=spark)
        found.append(_Explained(time.perf_counter() - begun, explanation))
    return found


def _line(name: str, found: list[_Explained]) -> tuple[str, ...]:
    seconds = sorted(each.seconds for each in found)
    counts = sorted(len(each.found.parts) for each in found)
    verified = sum(each.found.verified for each in found)
    told = sum(part.effect is not None for each in found for part in each.found.parts)
    return (
        f"`{name}`",
        f"{percentile(seconds, 0.5):.1f} s",
        f"{seconds[-1]:.1f} s",
        f"{counts[0]} to {counts[-1]}",
        f"{verified} of {len(found)}",
        f"{told:,} of {sum(counts):,}",
    )
