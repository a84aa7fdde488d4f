"""Each operator of the gallery, in both paths, beside the plain Spark code for it."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from statistics import median
from typing import TYPE_CHECKING
from uuid import uuid4

from anabranch.batch import publish, rebuild
from anabranch.landing.stream import start as start_landing
from anabranch.speed.runner import catch_up
from anabranch.tables.layout import batch_table, landing_table, speed_checkpoint, speed_table, view_folder
from anabranch.views import View, load_views
from anabranch.views.definition import is_own
from anabranch.views.registry import sources_of
from pyspark.cloudpickle import register_pickle_by_value

from benchmarks.cases import ONLY
from benchmarks.figures import Report, Sample, Table, Target, all_seconds, middle
from benchmarks.handwritten import operators as handwritten
from benchmarks.handwritten.operators import Job
from benchmarks.same_rows import check_same
from benchmarks.timing import finish, in_turn
from benchmarks.world import World, landed_events

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPEED, SPEED_BY_HAND, BATCH, BATCH_BY_HAND = "speed", "speed, hand-written", "batch", "batch, hand-written"
HALVES = (SPEED, BATCH)
WHEN = "measured (UTC)"
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
_OWN_WORDS = {"departed_in_weather": handwritten.departed_in_weather, "turns": handwritten.turns}
_SETTLED = {"turns": "rested_at < TIMESTAMP '{last} 00:00:00'"}
"""What is compared of streams whose watermarks end at other times: the one by hand knows departures only."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One operator: its view, the rows that both made, and how long each job took."""

    view: View
    rows: int
    samples: Mapping[str, Sequence[Sample]]

    def share(self, job: str, of: str) -> float:
        return middle(self.samples[of]) / middle(self.samples[job])


def run(world: World) -> Report:
    register_pickle_by_value(handwritten)  # Python workers of Spark don't know this folder
    folder = world.settings.project / "spark_jobs" / "views" / "gallery"
    registry = load_views(folder, world.declared_for_gallery)
    only = [name for name in os.environ.get(ONLY, "").split(",") if name]
    views = [registry.get(name) for name in OPERATORS if not only or name in only]
    with world.spark() as spark:
        finish(start_landing(spark, world.settings, world.declared.topic("weather"), once=True))
        measured = [_measure(world, spark, view) for view in views]
    return _report(measured, landed_events(world))


def _job(world: World, view: View) -> Job:
    function = _OWN_WORDS.get(view.name, view.function)
    types = [(world.declared.topic_of(kind).name, kind) for kind in view.events]
    stream = handwritten.turns_as_stream if view.name == "turns" else None
    in_state = view.refresh == "state"
    return Job(types, function, str(view.partition_by), view.key, stream, streams=in_state, closes=view.closes)


def _measure(world: World, spark: SparkSession, view: View) -> Measured:
    settings, job = world.settings, _job(world, view)
    topics = sources_of(view, world.declared)
    landing = {topic: landing_table(settings, topic) for topic, _ in job.types}
    days = [*world.partitions, *(world.partitions[-1] + timedelta(days=n) for n in (1, 2))]
    folder = world.scratch(f"handwritten-{view.name}")

    def speed() -> Sample:
        shutil.rmtree(speed_table(settings, view.name, 1), ignore_errors=True)
        shutil.rmtree(speed_checkpoint(settings, view.name, 1), ignore_errors=True)
        begun = time.perf_counter()
        catch_up(spark, settings, view, topics)
        return Sample(time.perf_counter() - begun)

    def speed_by_hand() -> Sample:
        shutil.rmtree(folder, ignore_errors=True)
        begun = time.perf_counter()
        finish(handwritten.start(spark, job, landing, str(folder / "speed"), folder / "checkpoint"))
        return Sample(time.perf_counter() - begun)

    def batch() -> Sample:
        begun = time.perf_counter()
        build = rebuild(spark, settings, view, topics, days, f"bench-{uuid4().hex}")
        publish(settings, view, build, days)
        return Sample(time.perf_counter() - begun)

    def batch_by_hand() -> Sample:
        begun = time.perf_counter()
        handwritten.batch(spark, job, landing, str(folder / "batch"))
        return Sample(time.perf_counter() - begun)

    print(f"  {view.name}", flush=True)
    four = {SPEED: speed, SPEED_BY_HAND: speed_by_hand, BATCH: batch, BATCH_BY_HAND: batch_by_hand}
    samples = in_turn(four, 3, warm_ups=1)
    rows = _check(world, spark, view, str(folder))
    shutil.rmtree(folder)
    shutil.rmtree(view_folder(settings, view.name, 1))
    return Measured(view, rows, samples)


def _check(world: World, spark: SparkSession, view: View, folder: str) -> int:
    """The hand-written jobs made the rows of the view: else their time says nothing. The rows of the batch."""
    read = spark.read.format("delta").load
    settled = _SETTLED.get(view.name, "true").format(last=world.partitions[-3])
    found = {}
    for half, table in (("speed", speed_table), ("batch", batch_table)):
        ours = read(table(world.settings, view.name, 1))
        columns = sorted(filter(is_own, ours.columns))
        theirs = read(f"{folder}/{half}").where(settled)
        found[half] = check_same(ours.where(settled), theirs, columns)
    return found["batch"]


def _report(measured: Sequence[Measured], events: int) -> Report:
    shares = {(each.view.name, half): each.share(half, f"{half}, hand-written") for each in measured for half in HALVES}
    when = f"{datetime.now(UTC):%Y-%m-%d %H:%M}"
    rows = tuple(
        (
            OPERATORS[each.view.name],
            f"`{each.view.name}`",
            "state" if each.view.refresh == "state" else "touched partitions",
            f"{each.rows:,}",
            *(
                text
                for half in HALVES
                for text in (
                    f"{middle(each.samples[half]):.2f} s",
                    f"{middle(each.samples[f'{half}, hand-written']):.2f} s",
                    f"{shares[each.view.name, half]:.2f}",
                )
            ),
            when,
        )
        for each in measured
    )
    columns = ("operator", "view", "speed half kept by", "rows")
    columns += tuple(text for half in HALVES for text in (f"{half} path", "hand-written", "speed of it"))
    columns += (WHEN,)
    samples = all_seconds({f"{e.view.name} {job}": runs for e in measured for job, runs in e.samples.items()})
    return Report(
        "operators",
        "Operators, one by one",
        f"The gallery's views over {events:,} landed records. Speed: from an empty checkpoint to the newest epoch; "
        "batch: all days rebuilt and published. Beside each, in turn with it, the plain Spark code for it as a batch "
        "job and as a stream that catches up. Medians of three.",
        (Table("", columns, rows),),
        _targets(samples),
        ("Both jobs made the same rows, in both paths.",),
        samples=samples,
    )


def _targets(samples: Mapping[str, Sequence[float]]) -> tuple[Target, ...]:
    """By the seconds of every run, by view and job."""
    found = []
    for half in HALVES:
        by_hand = f" {half}, hand-written"
        names = [job.removesuffix(by_hand) for job in samples if job.endswith(by_hand)]
        share, name = min((median(samples[n + by_hand]) / median(samples[f"{n} {half}"]), n) for n in names)
        found.append(Target(f"slowest operator, {half} path ({name}), of plain Spark", share, 0.9, at_least=True))
    return tuple(found)


def merged(old: Report, new: Report) -> Report:
    """``new``, with the rows and runs of ``old`` for the operators that weren't measured again."""
    rows = {row[1].strip("`"): row for row in (*old.tables[0].rows, *new.tables[0].rows)}
    again = {row[1].strip("`") for row in new.tables[0].rows}
    kept = {job: runs for job, runs in old.samples.items() if job.split(" ", 1)[0] not in again}
    samples = {**kept, **new.samples}
    table = replace(new.tables[0], rows=tuple(rows[name] for name in OPERATORS if name in rows))
    return replace(new, tables=(table,), samples=samples, targets=_targets(samples))
