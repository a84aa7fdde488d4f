"""Nexmark: every deterministic query as a view, in both paths, held against DuckDB, beside hand-written Spark jobs."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
from anabranch.compute.speed.view_stream import catch_up
from anabranch.core.settings import Settings
from anabranch.ingest.landing.stream import start as start_landing
from anabranch.lake.layout import VersionRef, landing_table
from anabranch.operate.runtime import lifecycle
from anabranch.views import View
from anabranch.views.model.handle import ViewHandle

from benchmarks.fairness import check_layout, check_same
from benchmarks.figures import Figure, Report, Sample, Table, all_seconds, middle, ratios
from benchmarks.nexmark import catalog, declared
from benchmarks.nexmark.generator import Workload
from benchmarks.nexmark.handwritten import jobs
from benchmarks.nexmark.handwritten.queries import QUERIES
from benchmarks.nexmark.oracle import Oracle
from benchmarks.nexmark.paths import Judged, epochs, judge, reprocess, short
from benchmarks.nexmark.producing import produce
from benchmarks.timing import finish, in_turn
from benchmarks.world import World

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EPOCH = 10_000
ONE_OF_EACH = {"q4", "q18"}
"""Of a tiny run: a join, and a view without days. All are run in both paths by ``tests/spark/nexmark``."""
SPEED, SPEED_BY_HAND, BATCH, BATCH_BY_HAND = "speed", "speed, hand-written", "batch", "batch, hand-written"


@dataclass(frozen=True, slots=True)
class Measured:
    """One query: that it is right, over how many events it runs, and how long each job took."""

    view: View
    judged: Judged
    events: int
    late: int
    samples: Mapping[str, Sequence[Sample]]
    layouts: frozenset[str]
    """What the files of both jobs' tables are like."""

    def rate(self, job: str) -> str:
        return f"{self.events / middle(self.samples[job]):,.0f}"

    def shares(self, job: str, rival: str) -> tuple[float, ...]:
        """The speed of ``job`` in each run, of its rival's."""
        return ratios(self.samples[rival], self.samples[job])


def run(world: World) -> Report:
    own = world.fresh("nexmark").model_copy(update={"max_offsets_per_trigger": EPOCH})
    workload, file = Workload(world.pick(6_000, 40_000, 150_000)), own.home / "produced.parquet"
    with lifecycle.running(own, ["kafka"]) as settings:
        produce(settings, workload, file)
        here = world.at(settings)
        with here.spark() as spark:
            finish(start_landing(spark, settings, declared.topic(), once=True))
    records = pq.read_table(file, columns=["partition", "offset", "value"])
    oracle = Oracle(records, epochs(settings, declared.topic()), declared.topic().allowed_lateness)
    views = sorted(declared.views(), key=lambda view: int(short(view)[1:]))
    if world.size == "tiny":
        views = [view for view in views if short(view) in ONE_OF_EACH]
    with here.spark() as spark:
        measured = [_measure(here, spark, view, workload, oracle) for view in views]
    return _report(workload, oracle, measured)


def _measure(world: World, spark: SparkSession, view: View, workload: Workload, oracle: Oracle) -> Measured:
    settings, topic, query = world.settings, declared.topic(), QUERIES[short(view)]
    landing, days = landing_table(settings, topic.name), workload.days
    folder = settings.home.parent / f"handwritten-{view.name}"

    def speed() -> Sample:
        _delete(
            VersionRef(settings, view.name, 1).speed_table, str(VersionRef(settings, view.name, 1).speed_checkpoint)
        )
        begun = time.perf_counter()
        catch_up(spark, ViewHandle(settings, view, topic))
        return Sample(time.perf_counter() - begun)

    def speed_by_hand() -> Sample:
        _delete(str(folder / "speed"), str(folder / "checkpoint"))
        begun = time.perf_counter()
        finish(jobs.start(spark, query, landing, str(folder / "speed"), folder / "checkpoint"))
        return Sample(time.perf_counter() - begun)

    def batch() -> Sample:
        _delete(VersionRef(settings, view.name, 1).batch_table)
        begun = time.perf_counter()
        reprocess(spark, settings, view, topic, days)
        return Sample(time.perf_counter() - begun)

    def batch_by_hand() -> Sample:
        _delete(str(folder / "batch"))
        begun = time.perf_counter()
        jobs.batch(spark, query, landing, str(folder / "batch"))
        return Sample(time.perf_counter() - begun)

    print(f"  {short(view)}", flush=True)
    four = {SPEED: speed, SPEED_BY_HAND: speed_by_hand, BATCH: batch, BATCH_BY_HAND: batch_by_hand}
    # The first run of each query is its warm-up: the median leaves it out.
    samples = in_turn(four, world.pick(1, 1, 5), world.warm_ups(int(short(view) == "q0")))
    judged = judge(spark, settings, view, topic, days, oracle)
    assert not judged.problems, (view.name, judged.problems)
    layouts = _check_hand_written(spark, settings, view, str(folder))
    _delete(
        str(folder),
        str(VersionRef(settings, view.name, 1).folder),
        str(VersionRef(settings, view.name, 1).speed_checkpoint),
    )
    return Measured(view, judged, *oracle.count(view.events), samples, layouts)


def _check_hand_written(spark: SparkSession, settings: Settings, view: View, folder: str) -> frozenset[str]:
    """The hand-written jobs made the rows of the view, in tables of the same layout: else their time says nothing."""
    read = spark.read.format("delta").load
    by_hand = {half: read(f"{folder}/{half}").drop("table_day") for half in ("speed", "batch")}
    columns = sorted(by_hand["batch"].columns)
    layouts = set()
    ref = VersionRef(settings, view.name, 1)
    for half, ours in (("speed", ref.speed_table), ("batch", ref.batch_table)):
        if half == "batch" and view.kappa:
            continue
        check_same(read(ours), by_hand[half], columns)
        layouts.add(check_layout(ours, f"{folder}/{half}"))
    return frozenset(layouts)


def _delete(*folders: str) -> None:
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


def _report(workload: Workload, oracle: Oracle, measured: Sequence[Measured]) -> Report:
    samples = {f"{short(each.view)} {job}": runs for each in measured for job, runs in each.samples.items()}
    return Report(
        "nexmark",
        "Nexmark: all deterministic queries in both paths",
        f"{oracle.events:,} events of the benchmark's generator (seed {workload.seed}, {workload.events // 20_000} "
        f"days) through the real log and landing, {oracle.late:,} of them late. Speed: from an empty checkpoint to the "
        "newest epoch; batch: all days rebuilt and published. Beside each a hand-written Spark job in SQL, in turn "
        "with it, into a Delta table of its own.",
        (_right(measured), _fast(measured), _words()),
        figures=_figures(measured),
        notes=(catalog.WINDOWS, *sorted({layout for each in measured for layout in each.layouts})),
        samples=all_seconds(samples),
    )


def _figures(measured: Sequence[Measured]) -> tuple[Figure, ...]:
    """By path: the median and the slowest query of each run, as a share of the hand-written job's speed."""
    found = []
    for path, job, rival in (("speed", SPEED, SPEED_BY_HAND), ("batch", BATCH, BATCH_BY_HAND)):
        runs = list(zip(*(each.shares(job, rival) for each in measured), strict=True))
        found.append(Figure(f"nexmark.{path}", f"{path} path, median query, of hand-written", tuple(map(median, runs))))
        each = min(measured, key=lambda one: median(one.shares(job, rival)))
        what = f"{path} path, slowest query ({short(each.view)}), of hand-written"
        found.append(Figure(f"nexmark.{path}.slowest", what, each.shares(job, rival)))
    return tuple(found)


def _shares(shares: tuple[float, ...]) -> str:
    return f"{median(shares):.2f} ({min(shares):.2f} to {max(shares):.2f})"


def _right(measured: Sequence[Measured]) -> Table:
    kept = {"state": "state", "partitions": "touched partitions"}
    rows = [
        (
            short(each.view),
            catalog.ASKS[short(each.view)],
            "kappa state" if each.view.kappa else kept[each.view.refresh],
            f"equal, {each.judged.certificates} of {each.judged.certificates} certificates",
            "both equal",
            f"{each.judged.speed_rows:,} / {each.judged.batch_rows:,}",
            f"{each.late:,} of {each.events:,}",
        )
        for each in measured
    ]
    rows += [(query, catalog.ASKS[query], "-", "not here", "-", "-", "-") for query in catalog.LEFT_OUT]
    rows.sort(key=lambda row: int(row[0][1:]))
    columns = ("query", "asks", "speed half kept by", "both paths", "DuckDB", "rows: speed / batch", "late events")
    return Table("Right", columns, tuple(rows))


def _fast(measured: Sequence[Measured]) -> Table:
    rows = [
        (
            short(each.view),
            *(each.rate(job) for job in (SPEED, SPEED_BY_HAND)),
            _shares(each.shares(SPEED, SPEED_BY_HAND)),
            *(each.rate(job) for job in (BATCH, BATCH_BY_HAND)),
            _shares(each.shares(BATCH, BATCH_BY_HAND)),
        )
        for each in measured
    ]
    columns = ("query", "speed path", "hand-written", "of it", "batch path", "hand-written", "of it")
    return Table("Fast: events a second that the query reads (medians)", columns, tuple(rows))


def _words() -> Table:
    rows = tuple({**catalog.DIFFERENT, **catalog.LEFT_OUT}.items())
    return Table("Where a query differs from the benchmark's, or isn't here", ("query", "why"), rows)
