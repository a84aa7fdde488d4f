"""Reprocess a month, as the DAG's steps do, in one session: what certificates cost on top of the batch alone. Once over
ten million events, and once over the sample's month, where almost all is fixed cost."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from statistics import median
from typing import TYPE_CHECKING
from uuid import uuid4

from anabranch.certify import reconciliation
from anabranch.certify.certificates import record
from anabranch.certify.certify_partitions import compare
from anabranch.certify.data_docs import write_documents
from anabranch.certify.late_changes import wrong_partitions
from anabranch.compute.batch.manifest import Build, StagedBuild
from anabranch.compute.batch.rebuild import rebuild
from anabranch.compute.speed.view_stream import catch_up
from anabranch.core.engine.spark import small
from anabranch.core.settings import Settings
from anabranch.lake.layout import landing_table
from anabranch.operate.runtime import lifecycle
from anabranch.views.model.handle import ViewHandle
from anabranch.views.selection.partition_events import count_for

from benchmarks.cases.batch import COLUMNS
from benchmarks.fairness import check_same
from benchmarks.figures import Figure, Report, Sample, Samples, Table, all_seconds, jobs_table, ratios, stages_table
from benchmarks.handwritten import batch as handwritten
from benchmarks.synthetic import land_days
from benchmarks.timing import in_turn, spans
from benchmarks.world import FIRST, World, fill_landing, fill_log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAYS_LATE, EPOCH = 0.002, 20_000
"""The share of events that come days late, and the most records of an epoch."""
LARGE_DAYS = 30
LARGE, SMALL = "large month", "sample's month"
BATCH, CERTIFIED, WHOLE, HANDWRITTEN = (
    "batch alone",
    "batch, certificates, late changes",
    "the same with every check and Data Docs",
    "hand-written batch",
)
STAGES = {
    "rebuild": "benchmarks.cases.reprocess:rebuild",
    "both sides prepared": "anabranch.certify.reconciliation:compare",
    "certificates, late changes beside them": "anabranch.certify.reconciliation:compute_certificates",
    "certificates kept": "anabranch.certify.reconciliation:record",
    "days in doubt computed again": "anabranch.certify.reconciliation:wrong_partitions",
    "checks": "anabranch.certify.reconciliation:run_checks",
    "Data Docs, which a run writes behind the publication": "benchmarks.cases.reprocess:write_documents",
}


@dataclass(frozen=True, slots=True)
class Month:
    """One size: its runs, its events, on how many days some of them are late, and how many certificates were equal."""

    days: int
    events: int
    late: int
    equal: int
    samples: Samples

    def times(self, job: str) -> tuple[float, ...]:
        """The job's time as a multiple of the batch alone's."""
        return ratios(self.samples[job], self.samples[BATCH])


def run(world: World) -> Report:
    """Both have events that come days late, and a landing of several epochs, which decides so. The small one has the
    session that a run gives so few events; so has its hand-written batch."""
    several = world.fresh("reprocess").model_copy(update={"max_offsets_per_trigger": EPOCH})
    with lifecycle.running(several, ["kafka"]) as settings:
        month = world.at(settings, size=world.pick("tiny", "quick", "quick"))
        fill_log(month, days_late=DAYS_LATE)
        fill_landing(month)
    days = world.pick(3, LARGE_DAYS, LARGE_DAYS)
    large, each = world.fresh("reprocess-large"), world.pick(3_000, 300_000, 10_000_000) // days
    land_days(large, world.topic, days, each, late=max(1, int(2 * DAYS_LATE * each)))
    with world.spark() as spark:
        months = {
            LARGE: _measured(world.at(large), spark, days),
            SMALL: _measured(world.at(settings), small(spark), month.days),
        }
    return _report(months)


def _measured(world: World, spark: SparkSession, days: int) -> Month:
    settings, view, topic = world.settings, world.view, world.topic
    partitions = [FIRST + timedelta(days=n) for n in range(days)]
    catch_up(spark, ViewHandle(settings, view, topic))
    print(f"  {days} days", flush=True)
    jobs = _Jobs(world, spark, partitions, str(world.scratch("handwritten-month")))
    named = {BATCH: jobs.batch, CERTIFIED: jobs.certified, WHOLE: jobs.whole, HANDWRITTEN: jobs.by_hand}
    samples = in_turn(named, world.runs, world.warm_ups(2))
    jobs.check()
    return Month(days, jobs.events, jobs.late, jobs.equal, samples)


@dataclass
class _Jobs:
    world: World
    spark: SparkSession
    partitions: Sequence[date]
    target: str
    events: int = 0
    late: int = 0
    equal: int = 0
    built: Build | None = None

    @property
    def settings(self) -> Settings:
        return self.world.settings

    def batch(self) -> Sample:
        begun = time.perf_counter()
        self.built = self._rebuild(f"bench-{uuid4().hex}")
        return Sample(time.perf_counter() - begun)

    def _rebuild(self, name: str) -> Build:
        return rebuild(self.spark, ViewHandle(self.settings, self.world.view, self.world.topic), self.partitions, name)

    def certified(self) -> Sample:
        world, name, begun = self.world, f"bench-{uuid4().hex}", time.perf_counter()
        build = self._rebuild(name)
        built = time.perf_counter()
        staged = StagedBuild.of(self.settings, build)
        comparison = compare(self.spark, ViewHandle(self.settings, world.view, world.topic), self.partitions, staged)
        prepared = time.perf_counter()
        certificates, changes = reconciliation.compute_certificates(comparison, staged, name)
        record(self.settings, certificates)
        doubtful = [change.partition for change in changes if change.doubtful]
        assert not wrong_partitions(self.spark, ViewHandle(self.settings, world.view, world.topic), staged, doubtful)
        ended = time.perf_counter()
        assert all(certificate.equal for certificate in certificates), "a certificate says: not equal"
        self.events = count_for(ViewHandle(self.settings, world.view, world.topic), self.partitions, build.cut).read
        self.equal = len(certificates)
        self.late = sum(change.late_events > 0 for change in changes)
        stages = {
            "rebuild": built - begun,
            "both sides prepared": prepared - built,
            "certificates, late changes beside them": ended - prepared,
        }
        return Sample(ended - begun, stages)

    def whole(self) -> Sample:
        with spans(STAGES) as stages:
            name, begun = f"bench-{uuid4().hex}", time.perf_counter()
            build = self._rebuild(name)
            verdict = reconciliation.reconcile(
                self.spark, ViewHandle(self.settings, self.world.view, self.world.topic), name, build
            )
            write_documents(self.settings, verdict)
            seconds = time.perf_counter() - begun
        assert not verdict.refused, verdict.refused
        return Sample(seconds, stages)

    def by_hand(self) -> Sample:
        landing, begun = landing_table(self.settings, self.world.topic.name), time.perf_counter()
        handwritten.run(self.spark, landing, self.target, self.partitions[0], self.partitions[-1])
        return Sample(time.perf_counter() - begun)

    def check(self) -> None:
        """Whether the batch alone and the hand-written one made the same rows; their layouts are those of the case
        ``batch``."""
        assert self.built is not None
        base = ViewHandle(self.settings, self.world.view, self.world.topic).batch_table
        ours = self.spark.read.parquet(*(f"{base}/{file.path}" for file in self.built.files))
        check_same(ours, self.spark.read.format("delta").load(self.target), COLUMNS)


def _report(months: Mapping[str, Month]) -> Report:
    large, few = months[LARGE], months[SMALL]
    return Report(
        "reprocess",
        "Reprocess of a month with its certificates",
        f"`departure_delays`, {large.days} days, {large.events:,} events, late events on {large.late} of the days: "
        "rebuild, certificates of every day at the speed table's cut, and what the late events changed, in one "
        f"session, as often as the batch alone. Then the same with {few.days} days of the sample: "
        f"{few.events:,} events, late ones on {few.late} days, in a session for small jobs, as a run of them has.",
        (*_tables("", large), *_tables(f"{SMALL}: ", few), _costs(months)),
        (
            *_figures("reprocess.large", LARGE, large),
            Figure(
                "reprocess.large.rival", "time of a hand-written batch, of the batch alone", large.times(HANDWRITTEN)
            ),
            *_figures("reprocess", SMALL, few),
        ),
        tuple(
            f"{name}: {month.equal} of {month.equal} certificates equal in every run; the rows are those of the "
            "hand-written batch."
            for name, month in months.items()
        ),
        {f"{name}: {job}": runs for name, month in months.items() for job, runs in all_seconds(month.samples).items()},
    )


def _figures(name: str, which: str, month: Month) -> Sequence[Figure]:
    certified, whole = "time with certificates", "time with every check and the Data Docs"
    return [
        Figure(f"{name}.{kind}", f"{which}, {what}, of the batch alone", month.times(job), limit=limit, at_least=False)
        for kind, what, job, limit in (("certified", certified, CERTIFIED, 1.5), ("whole", whole, WHOLE, 2.0))
    ]


def _tables(title: str, month: Month) -> Sequence[Table]:
    tables = (jobs_table(month.samples, month.events, BATCH), stages_table(month.samples))
    return [Table(f"{title}{table.title or 'jobs'}", table.columns, table.rows) for table in tables]


def _costs(months: Mapping[str, Month]) -> Table:
    """A straight line through both sizes, for each step of the whole run."""
    large, few = months[LARGE], months[SMALL]
    rows = []
    for stage in STAGES:
        most, least = (median(run.stages.get(stage, 0.0) for run in m.samples[WHOLE]) for m in (large, few))
        each = max(0.0, (most - least) / (large.events - few.events))
        rows.append((stage, f"{max(0.0, least - each * few.events):.2f} s", f"{each * 1e6:.2f} s"))
    return Table("Fixed cost, and cost of a million events", ("step", "fixed", "a million events"), tuple(rows))
