"""A day done again, as the DAG's steps do it: beside a year of history and without one it should cost the same."""

from __future__ import annotations

import time
from datetime import date, timedelta
from uuid import uuid4

from anabranch.certify.reconciliation import reconcile
from anabranch.change.reprocess_plan import make_plan
from anabranch.change.reprocess_request import ReprocessRequest
from anabranch.compute.batch.publish import publish
from anabranch.compute.batch.rebuild import rebuild
from anabranch.compute.speed.view_stream import catch_up
from anabranch.core.settings import Settings
from anabranch.operate.runtime import lifecycle
from anabranch.views.model.handle import ViewHandle
from anabranch_samples.faults import Faults
from anabranch_samples.producing import produce_flights
from anabranch_samples.publishing import Pace

from benchmarks.figures import Figure, Report, Sample, all_seconds, jobs_table, ratios, stages_table
from benchmarks.timing import in_turn
from benchmarks.world import FIRST, SEED, World, fill_landing

ALONE, AMONG = "that day alone", "with the whole history"


def run(world: World) -> Report:
    day = FIRST + timedelta(days=world.days // 2)
    with lifecycle.running(world.fresh("one-day"), ["kafka"]) as alone:
        produce_flights(alone, day - timedelta(days=1), 2, Pace(), Faults(), SEED, quiet=True)
        fill_landing(world.at(alone))
    return _measured(world, alone, day)


def _measured(world: World, alone: Settings, day: date) -> Report:
    view, topic = world.view, world.topic
    events = 0
    with world.spark() as spark:

        def again(settings: Settings, days: list[date]) -> Sample:
            nonlocal events
            name, begun = f"bench-{uuid4().hex}", time.perf_counter()
            plan = make_plan(ViewHandle(settings, view, topic), ReprocessRequest(tuple(days), {}, explicit=True))
            planned = time.perf_counter()
            build = rebuild(spark, ViewHandle(settings, view, topic), days, name)
            rebuilt = time.perf_counter()
            verdict = reconcile(spark, ViewHandle(settings, view, topic), name, build)
            judged = time.perf_counter()
            publish(ViewHandle(settings, view, topic), build, verdict.equal)
            ended = time.perf_counter()
            assert list(verdict.equal) == days, verdict.report
            events = plan.read
            stages = {
                "plan": planned - begun,
                "rebuild": rebuilt - planned,
                "certificates, checks": judged - rebuilt,
                "publish": ended - judged,
            }
            return Sample(ended - begun, stages)

        for settings, days in ((alone, [day]), (world.settings, world.partitions)):
            catch_up(spark, ViewHandle(settings, view, topic))
            if world.size != "tiny":  # there the runs in turn are the first
                again(settings, days)
        jobs = {ALONE: lambda: again(alone, [day]), AMONG: lambda: again(world.settings, [day])}
        samples = in_turn(jobs, world.runs, world.warm_ups(2))
    times = ratios(samples[AMONG], samples[ALONE])
    what = f"time with {len(world.partitions)} days of history, of that with none"
    return Report(
        "history",
        "A day done again, beside a history",
        f"`departure_delays`, {day}, {events:,} events: plan, rebuild, certificate with every check, publish, in one "
        f"session. Once with two days of flights in the log, once with {len(world.partitions)} days, all of them "
        "published.",
        (jobs_table(samples, events, ALONE), stages_table(samples)),
        (Figure("history.times", what, times, limit=1.2, at_least=False),),
        (),
        all_seconds(samples),
    )
