"""History replayed by itself: streamed again, certified and published, beside a stream by hand that does the first, and
the batch that a certificate needs: both together are the least that a replay can take on the same cores."""

from __future__ import annotations

import shutil
import time

from anabranch.change.replay.rate_limit import Pace
from anabranch.change.replay.request import ReplayRequest
from anabranch.change.replay.runner import replay
from anabranch.change.replay.state import PUBLISHED
from anabranch.compute.batch.rebuild import rebuild
from anabranch.compute.speed.view_stream import catch_up
from anabranch.lake import latest_commit
from anabranch.lake.layout import landing_table
from anabranch.views.model.handle import ViewHandle

from benchmarks.cases.batch import COLUMNS
from benchmarks.fairness import check_layout, check_same
from benchmarks.figures import Figure, Report, Sample, Samples, all_seconds, jobs_table, ratios, stages_table
from benchmarks.handwritten import speed as handwritten
from benchmarks.timing import finish, in_turn, spans
from benchmarks.world import World, landed_events

ALL, STREAM, BATCH = (
    "replay: streamed, settled, certified, published",
    "hand-written stream",
    "the function over the same events, as batch",
)
_RUNNER = "anabranch.change.replay.runner:_Replay"
STAGES = {
    "streamed": f"{_RUNNER}._stream",
    "rows that are as before get their epochs": f"{_RUNNER}._keep_live_epochs",
    "certified": f"{_RUNNER}._certify",
    "published": f"{_RUNNER}._publish",
}


def run(world: World) -> Report:
    (samples, notes), events = _walked(world), landed_events(world)
    return Report(
        "replay_alone",
        "A replay by itself",
        f"`{world.view.name}` replayed with all cores, over {events:,} landed records, beside a hand-written stream "
        "over the same landing table, which certifies and publishes nothing, and a rebuild of all days by batch: a "
        "certificate computes the same from landing.",
        (jobs_table(samples, events, STREAM), stages_table(samples)),
        (
            Figure(
                "replay_alone.times",
                "time of a replay with all cores, of a hand-written stream",
                ratios(samples[ALL], samples[STREAM]),
                limit=1.3,
                at_least=False,
            ),
            Figure("replay_alone.least", "that stream, then that batch: their time, of the stream", _least(samples)),
        ),
        notes,
        all_seconds(samples),
    )


def _least(samples: Samples) -> tuple[float, ...]:
    pairs = zip(samples[STREAM], samples[BATCH], strict=True)
    return tuple((stream.seconds + batch.seconds) / stream.seconds for stream, batch in pairs)


def _walked(world: World) -> tuple[dict[str, list[Sample]], tuple[str, ...]]:
    settings, view, topic = world.settings, world.view, world.topic
    landing, runs = landing_table(settings, topic.name), iter(range(1_000))
    handle = ViewHandle(settings, view, topic)
    with world.spark() as spark:
        catch_up(spark, handle)

        def replayed() -> Sample:
            asked = ReplayRequest(handle, f"bench-{next(runs)}-{time.time_ns()}", pace=Pace(1.0))
            with spans(STAGES) as stages:
                begun = time.perf_counter()
                ended = replay(spark, asked)
                seconds = time.perf_counter() - begun
            assert ended.phase == PUBLISHED, ended
            return Sample(seconds, stages)

        def by_hand() -> Sample:
            folder = world.scratch("handwritten-replay")
            begun = time.perf_counter()
            found = finish(handwritten.start(spark, landing, str(folder / "table"), folder / "checkpoint"))
            return Sample(time.perf_counter() - begun, found)

        def batch() -> Sample:
            begun = time.perf_counter()
            rebuild(spark, handle, world.partitions, f"bench-{time.time_ns()}")
            return Sample(time.perf_counter() - begun)

        samples = in_turn({ALL: replayed, STREAM: by_hand, BATCH: batch}, world.runs, world.warm_ups(1))
        theirs, read = str(world.settings.home.parent / "handwritten-replay" / "table"), spark.read.format("delta").load
        rows = check_same(read(str(handle.speed_table)), read(theirs), COLUMNS)
        layout = check_layout(str(handle.speed_table), theirs)
    shutil.rmtree(handle.speed_table)
    if latest_commit(handle.batch_table) is None:  # what was staged here alone; other benchmarks publish
        shutil.rmtree(handle.batch_table)
    for folder in (handle.speed_checkpoint, handle.replay_checkpoints):
        shutil.rmtree(folder, ignore_errors=True)
    return {name: list(found) for name, found in samples.items()}, (
        f"Both made the same {rows:,} rows ({', '.join(COLUMNS)} compared).",
        layout,
    )
