"""Each operator of the gallery, in both paths; beside plain Spark code where there is code that is not the view's."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING
from uuid import uuid4

from anabranch.compute.batch.publish import publish
from anabranch.compute.batch.rebuild import rebuild
from anabranch.compute.speed.view_stream import catch_up
from anabranch.ingest.landing.stream import start as start_landing
from anabranch.lake.layout import VersionRef, landing_table
from anabranch.views import View, load_views
from anabranch.views.model.definition import is_own
from anabranch.views.model.handle import ViewHandle
from anabranch.views.registry import sources_of
from pyspark.cloudpickle import register_pickle_by_value

from benchmarks.fairness import check_layout, check_same
from benchmarks.figures import Figure, Report, Sample, Table, all_seconds, middle, ratios
from benchmarks.handwritten import operators as handwritten
from benchmarks.handwritten.operators import Job
from benchmarks.timing import finish, in_turn
from benchmarks.world import World, landed_events

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPEED, SPEED_BY_HAND, BATCH, BATCH_BY_HAND = "speed", "speed, hand-written", "batch", "batch, hand-written"
HALVES = (SPEED, BATCH)
NO_RIVAL = "no comparison"
OPERATORS = {
    "busy_hours": "hopping window",
    "queue_before": "sliding window, exact",
    "duty": "session window",
    "local_day": "days of a time zone, distinct count",
    "time_in_air": "inner join within a time",
    "plan_and_truth": "full outer join",
    "never_arrived": "absence within a time",
    "departed_in_weather": "as-of join of two topics",
    "top_destinations": "top-n per window",
    "fleet_size": "distinct, approximate, quantiles",
    "rolling_day": "rolling average",
    "week_on_week": "join with the week before",
    "aircraft_sketch": "sketch per window",
    "bad_runs": "sequence pattern",
    "turns": "keyed state with timers",
    "delays_corrected": "corrections",
    "hours_of_day": "a view over a view",
}
RIVALS: Mapping[str, handwritten.Function] = {
    "departed_in_weather": handwritten.departed_in_weather,
    "turns": handwritten.turns,
}
"""Functions that share no code with the view. Those of the other views are plain Spark code already: a hand-written job
would call the same function, which compares nothing."""
_SETTLED = {"turns": "rested_at < TIMESTAMP '{last} 00:00:00'"}
"""What is compared of streams whose watermarks end at other times: the one by hand knows departures only."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One operator: its view, its rows, the seconds of each job's runs, and what the rivals' tables are like."""

    view: View
    rows: int
    samples: Mapping[str, Sequence[Sample]]
    layouts: tuple[str, ...] = ()


def run(world: World) -> Report:
    # Python workers of Spark don't know this folder.
    register_pickle_by_value(handwritten)  # type: ignore[no-untyped-call]
    folder = world.settings.project / "spark_jobs" / "views" / "gallery"
    registry = load_views(folder, world.declared_for_gallery)
    with world.spark() as spark:
        finish(start_landing(spark, world.settings, world.declared.topic("weather"), once=True))
        # The tests of the gallery run each view in both paths: a tiny run has those with a rival, and one without.
        names = world.pick([*RIVALS, "top_destinations"], OPERATORS, OPERATORS)
        measured = [_measure(world, spark, registry.get(name)) for name in names]
    return _report(measured, landed_events(world))


def _measure(world: World, spark: SparkSession, view: View) -> Measured:
    settings, topics = world.settings, sources_of(view, world.declared)
    days = [*world.partitions, *(world.partitions[-1] + timedelta(days=n) for n in (1, 2))]

    def speed() -> Sample:
        shutil.rmtree(VersionRef(settings, view.name, 1).speed_table, ignore_errors=True)
        shutil.rmtree(VersionRef(settings, view.name, 1).speed_checkpoint, ignore_errors=True)
        begun = time.perf_counter()
        catch_up(spark, ViewHandle(settings, view, topics))
        return Sample(time.perf_counter() - begun)

    def batch() -> Sample:
        begun = time.perf_counter()
        build = rebuild(spark, ViewHandle(settings, view, topics), days, f"bench-{uuid4().hex}")
        publish(ViewHandle(settings, view, topics), build, days)
        return Sample(time.perf_counter() - begun)

    print(f"  {view.name}", flush=True)
    folder = world.scratch(f"handwritten-{view.name}")
    jobs = {SPEED: speed, BATCH: batch}
    if view.name in RIVALS:
        jobs |= _rivals(world, spark, view, folder)
    samples = in_turn(jobs, world.runs, world.warm_ups(1))
    layouts = _check(world, spark, view, str(folder)) if view.name in RIVALS else ()
    rows = spark.read.format("delta").load(VersionRef(settings, view.name, 1).batch_table).count()
    shutil.rmtree(folder)
    shutil.rmtree(VersionRef(settings, view.name, 1).folder)
    return Measured(view, rows, samples, layouts)


def _rivals(world: World, spark: SparkSession, view: View, folder: Path) -> dict[str, Callable[[], Sample]]:
    types = [(world.declared.topic_of(kind).name, kind) for kind in view.events]
    stream = handwritten.turns_as_stream if view.name == "turns" else None
    key, streams = view.key, view.refresh == "state"
    job = Job(types, RIVALS[view.name], str(view.partition_by), key, stream, streams=streams, closes=view.closes)
    landing = {topic: landing_table(world.settings, topic) for topic, _ in types}

    def speed() -> Sample:
        shutil.rmtree(folder / "speed", ignore_errors=True)
        shutil.rmtree(folder / "checkpoint", ignore_errors=True)
        begun = time.perf_counter()
        finish(handwritten.start(spark, job, landing, str(folder / "speed"), folder / "checkpoint"))
        return Sample(time.perf_counter() - begun)

    def batch() -> Sample:
        begun = time.perf_counter()
        handwritten.batch(spark, job, landing, str(folder / "batch"))
        return Sample(time.perf_counter() - begun)

    return {SPEED_BY_HAND: speed, BATCH_BY_HAND: batch}


def _check(world: World, spark: SparkSession, view: View, folder: str) -> tuple[str, ...]:
    """The hand-written jobs made the rows of the view, in tables of the same layout: else their time says nothing."""
    read = spark.read.format("delta").load
    settled = _SETTLED.get(view.name, "true").format(last=world.partitions[-1] - timedelta(days=2))
    layouts = []
    ref = VersionRef(world.settings, view.name, 1)
    for half, uri in (("speed", ref.speed_table), ("batch", ref.batch_table)):
        ours = read(uri)
        columns = sorted(filter(is_own, ours.columns))
        check_same(ours.where(settled), read(f"{folder}/{half}").where(settled), columns)
        layouts.append(f"{view.name}, {half}: {check_layout(uri, f'{folder}/{half}')}")
    return tuple(layouts)


def _report(measured: Sequence[Measured], events: int) -> Report:
    paths = (text for half in HALVES for text in (f"{half} path", "hand-written", "speed of it"))
    columns = ("operator", "view", "speed half kept by", "rows", *paths)
    samples = all_seconds({f"{e.view.name} {job}": runs for e in measured for job, runs in e.samples.items()})
    runs = len(measured[0].samples[SPEED])
    return Report(
        "operators",
        "Operators, one by one",
        f"The gallery's views over {events:,} landed records. Speed: from an empty checkpoint to the newest epoch; "
        f"batch: all days rebuilt and published. Medians of {runs}, with the smallest and the largest run. Where "
        "there is plain Spark code that shares nothing with the view's, it ran in turn with it, as a batch job and as "
        f"a stream that catches up. Elsewhere: {NO_RIVAL}: a hand-written job would call the view's own function.",
        (Table("", columns, tuple(_row(each) for each in measured)),),
        tuple(_figures(measured)),
        tuple(layout for each in measured for layout in each.layouts),
        samples,
    )


def _row(each: Measured) -> tuple[str, ...]:
    kept = "state" if each.view.refresh == "state" else "touched partitions"
    row = [OPERATORS[each.view.name], f"`{each.view.name}`", kept, f"{each.rows:,}"]
    for half in HALVES:
        row.append(_seconds(each.samples[half]))
        if (rival := each.samples.get(f"{half}, hand-written")) is None:
            row += [NO_RIVAL, "-"]
        else:
            row += [_seconds(rival), f"{median(ratios(rival, each.samples[half])):.2f}"]
    return tuple(row)


def _seconds(runs: Sequence[Sample]) -> str:
    seconds = [run.seconds for run in runs]
    return f"{middle(runs):.2f} s ({min(seconds):.2f} to {max(seconds):.2f})"


def _figures(measured: Sequence[Measured]) -> Iterator[Figure]:
    """The slowest operator of those that have a rival, by path."""
    for half in HALVES:
        shares = {
            each.view.name: ratios(each.samples[f"{half}, hand-written"], each.samples[half])
            for each in measured
            if each.view.name in RIVALS
        }
        name = min(shares, key=lambda view: median(shares[view]))
        what = f"slowest operator, {half} path ({name}), of plain Spark"
        yield Figure(f"operators.{half}", what, shares[name], limit=0.9)
