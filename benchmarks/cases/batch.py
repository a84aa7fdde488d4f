"""A batch rebuild of departure_delays: the platform's, with its publication, beside a hand-written Spark job."""

from __future__ import annotations

import time
from uuid import uuid4

from anabranch.compute.batch.publish import publish
from anabranch.compute.batch.rebuild import rebuild
from anabranch.lake.layout import VersionRef, landing_table
from anabranch.views.model.handle import ViewHandle

from benchmarks.fairness import check_layout, check_same
from benchmarks.figures import Figure, Report, Sample, all_seconds, jobs_table, ratios, stages_table
from benchmarks.handwritten import batch as handwritten
from benchmarks.timing import in_turn, spans
from benchmarks.world import World, landed_events

PLATFORM, HANDWRITTEN = "platform: rebuild, publish", "hand-written"
STAGES = {
    "rebuild: Spark writes the files": "anabranch.compute.batch.rebuild:stage_frame",
    "rebuild: strays sorted out": "anabranch.compute.batch.rebuild:select_files",
}
COLUMNS = ("origin", "window_start", "window_end", "flights", "delayed", "delay_minutes", "average_delay")


def run(world: World) -> Report:
    settings, view, topic, partitions = world.settings, world.view, world.topic, world.partitions
    landing, target = landing_table(settings, topic.name), str(world.scratch("handwritten-batch"))
    with world.spark() as spark:

        def platform() -> Sample:
            with spans(STAGES) as stages:
                begun = time.perf_counter()
                build = rebuild(spark, ViewHandle(settings, view, topic), partitions, f"bench-{uuid4().hex}")
                built = time.perf_counter()
                publish(ViewHandle(settings, view, topic), build, partitions)
                ended = time.perf_counter()
            return Sample(ended - begun, {**stages, "publish": ended - built})

        def by_hand() -> Sample:
            begun = time.perf_counter()
            handwritten.run(spark, landing, target, partitions[0], partitions[-1])
            return Sample(time.perf_counter() - begun)

        samples = in_turn({PLATFORM: platform, HANDWRITTEN: by_hand}, world.runs, world.warm_ups(2))
        ours, read = VersionRef(settings, view.name, view.version).batch_table, spark.read.format("delta").load
        rows = check_same(read(ours), read(target), COLUMNS)
        layout = check_layout(ours, target)
    events = landed_events(world)
    speed = ratios(samples[HANDWRITTEN], samples[PLATFORM])
    return Report(
        "batch",
        "Batch rebuild of `departure_delays`",
        f"{len(partitions)} days from {events:,} landed events, computed and shown to readers in one commit, beside "
        "one Spark job that reads, aggregates and overwrites a Delta table partitioned by day.",
        (jobs_table(samples, events, HANDWRITTEN), stages_table(samples)),
        (Figure("batch.speed", "speed of a rebuild, of hand-written", speed, limit=0.95),),
        (f"Both made the same {rows:,} rows.", layout),
        all_seconds(samples),
    )
