"""History replayed by itself: streamed again, certified and published, beside a stream by hand that does the first."""

from __future__ import annotations

import shutil
import time

from anabranch.change.replay.rate_limit import Pace
from anabranch.change.replay.request import ReplayRequest
from anabranch.change.replay.runner import replay
from anabranch.change.replay.state import PUBLISHED
from anabranch.compute.speed.view_stream import catch_up
from anabranch.lake.layout import landing_table
from anabranch.views.model.handle import ViewHandle

from benchmarks.figures import Figure, Report, Sample, all_seconds, jobs_table, ratios
from benchmarks.handwritten import speed as handwritten
from benchmarks.timing import finish, in_turn
from benchmarks.world import World, landed_events

ALL, STREAM = "replay: streamed, settled, certified, published", "hand-written stream"


def run(world: World) -> Report:
    samples, events = _walked(world), landed_events(world)
    return Report(
        "replay_alone",
        "A replay by itself",
        f"`{world.view.name}` replayed with all cores, over {events:,} landed records, beside a hand-written stream "
        "over the same landing table, which certifies and publishes nothing.",
        (jobs_table(samples, events, STREAM),),
        (
            Figure(
                "replay_alone.times",
                "time of a replay with all cores, of a hand-written stream",
                ratios(samples[ALL], samples[STREAM]),
                limit=1.3,
                at_least=False,
            ),
        ),
        (),
        all_seconds(samples),
    )


def _walked(world: World) -> dict[str, list[Sample]]:
    settings, view, topic = world.settings, world.view, world.topic
    landing, runs = landing_table(settings, topic.name), iter(range(1_000))
    handle = ViewHandle(settings, view, topic)
    with world.spark() as spark:
        catch_up(spark, handle)

        def replayed() -> Sample:
            asked = ReplayRequest(handle, f"bench-{next(runs)}-{time.time_ns()}", pace=Pace(1.0))
            begun = time.perf_counter()
            ended = replay(spark, asked)
            assert ended.phase == PUBLISHED, ended
            return Sample(time.perf_counter() - begun)

        def by_hand() -> Sample:
            folder = world.scratch("handwritten-replay")
            begun = time.perf_counter()
            found = finish(handwritten.start(spark, landing, str(folder / "table"), folder / "checkpoint"))
            return Sample(time.perf_counter() - begun, found)

        samples = in_turn({ALL: replayed, STREAM: by_hand}, world.runs, world.warm_ups(1))
    shutil.rmtree(handle.speed_table)
    for folder in (handle.speed_checkpoint, handle.replay_checkpoints):
        shutil.rmtree(folder, ignore_errors=True)
    return {name: list(found) for name, found in samples.items()}
