"""Reprocess a month, as the DAG's steps do, in one session: what certificates cost on top of the batch alone."""

from __future__ import annotations

import time
from datetime import timedelta
from uuid import uuid4

from anabranch.certify import reconciliation
from anabranch.certify.certificates import record
from anabranch.certify.certify_partitions import compare
from anabranch.certify.data_docs import write_documents
from anabranch.certify.late_changes import wrong_partitions
from anabranch.certify.staged_build import StagedBuild
from anabranch.compute.batch import rebuild
from anabranch.compute.speed.view_stream import catch_up
from anabranch.lake.layout import landing_table
from anabranch.operate.runtime import lifecycle
from anabranch.views.partition_events import count_for

from benchmarks.figures import Figure, Report, Sample, all_seconds, jobs_table, ratios, stages_table
from benchmarks.handwritten import batch as handwritten
from benchmarks.timing import in_turn, spans
from benchmarks.world import FIRST, World, fill_landing, fill_log

DAYS_LATE, EPOCH = 0.002, 20_000
"""The share of events that come days late, and the most records of an epoch."""
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


def run(world: World) -> Report:
    """On a log of its own, in which events come days late, and a landing of several epochs, which decides so."""
    own = world.fresh("reprocess").model_copy(update={"max_offsets_per_trigger": EPOCH})
    with lifecycle.running(own, ["kafka"]) as settings:
        month = world.at(settings, size=world.pick("tiny", "quick", "quick"))
        fill_log(month, days_late=DAYS_LATE)
        fill_landing(month)
    return _measured(world.at(settings), month.days)


def _measured(world: World, days: int) -> Report:
    settings, view, topic = world.settings, world.view, world.topic
    partitions = [FIRST + timedelta(days=n) for n in range(days)]
    landing, target = landing_table(settings, topic.name), str(world.scratch("handwritten-month"))
    events, late, equal = 0, 0, 0
    with world.spark() as spark:
        catch_up(spark, settings, view, topic)

        def batch() -> Sample:
            begun = time.perf_counter()
            rebuild(spark, settings, view, topic, partitions, f"bench-{uuid4().hex}")
            return Sample(time.perf_counter() - begun)

        def certified() -> Sample:
            nonlocal events, late, equal
            name, begun = f"bench-{uuid4().hex}", time.perf_counter()
            build = rebuild(spark, settings, view, topic, partitions, name)
            built = time.perf_counter()
            staged = StagedBuild.of(settings, build)
            comparison = compare(spark, settings, view, topic, partitions, staged)
            prepared = time.perf_counter()
            certificates, changes = reconciliation.compute_certificates(comparison, staged, name)
            record(settings, certificates)
            doubtful = [change.partition for change in changes if change.doubtful]
            assert not wrong_partitions(spark, settings, view, topic, staged, doubtful)
            ended = time.perf_counter()
            assert all(certificate.equal for certificate in certificates), "a certificate says: not equal"
            events = count_for(settings, view, topic, partitions, build.cut).read
            equal = len(certificates)
            late = sum(change.late_events > 0 for change in changes)
            stages = {
                "rebuild": built - begun,
                "both sides prepared": prepared - built,
                "certificates, late changes beside them": ended - prepared,
            }
            return Sample(ended - begun, stages)

        def whole() -> Sample:
            with spans(STAGES) as stages:
                name, begun = f"bench-{uuid4().hex}", time.perf_counter()
                build = rebuild(spark, settings, view, topic, partitions, name)
                verdict = reconciliation.reconcile(spark, settings, view, topic, name, build)
                write_documents(settings, verdict)
                seconds = time.perf_counter() - begun
            assert not verdict.refused, verdict.refused
            return Sample(seconds, stages)

        def by_hand() -> Sample:
            begun = time.perf_counter()
            handwritten.run(spark, landing, target, partitions[0], partitions[-1])
            return Sample(time.perf_counter() - begun)

        jobs = {BATCH: batch, CERTIFIED: certified, WHOLE: whole, HANDWRITTEN: by_hand}
        samples = in_turn(jobs, world.runs, world.warm_ups(2))
    return _report(samples, days, events, late, equal)


def _report(samples: dict[str, list[Sample]], days: int, events: int, late: int, equal: int) -> Report:
    certified, whole, rival = (ratios(samples[name], samples[BATCH]) for name in (CERTIFIED, WHOLE, HANDWRITTEN))
    return Report(
        "reprocess",
        "Reprocess of a month with its certificates",
        f"`departure_delays`, {days} days, {events:,} events, late events on {late} of the days: rebuild, certificates "
        "of every day at the speed table's cut, and what the late events changed, in one session, as often as the "
        "batch alone.",
        (jobs_table(samples, events, BATCH), stages_table(samples)),
        (
            Figure(
                "reprocess.certified",
                "time with certificates, of the batch alone",
                certified,
                limit=1.5,
                at_least=False,
            ),
            Figure(
                "reprocess.whole",
                "time with every check and the Data Docs, of the batch alone",
                whole,
                limit=2.0,
                at_least=False,
            ),
            Figure("reprocess.rival", "time of a hand-written batch, of the batch alone", rival),
        ),
        (f"{equal} of {equal} certificates equal in every run.",),
        all_seconds(samples),
    )
