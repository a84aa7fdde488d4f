"""The speed layer catches up: departure_delays over everything landed, from an empty checkpoint."""

from __future__ import annotations

import shutil
import time

from anabranch.compute.speed.view_stream import catch_up
from anabranch.lake.layout import VersionRef, landing_table
from anabranch.views.model.handle import ViewHandle

from benchmarks.cases.batch import COLUMNS
from benchmarks.fairness import check_layout, check_same
from benchmarks.figures import Figure, Report, Sample, all_seconds, jobs_table, ratios, stages_table
from benchmarks.handwritten import speed as handwritten
from benchmarks.timing import finish, in_turn, spans, steps
from benchmarks.world import World, landed_events

PLATFORM, HANDWRITTEN = "platform", "hand-written"
STAGES = {
    "Spark computes and writes the files": "anabranch.compute.speed.table:SpeedTable.stage",
    "commit": "anabranch.compute.speed.table:SpeedTable.refresh",
    "what the micro-batch covers": "anabranch.compute.speed._cut_resolver:CutResolver.resolve",
    "rows dropped by the watermark looked for": "anabranch.compute.speed._dropped_rows:dropped_rows",
}


def run(world: World) -> Report:
    settings, view, topic = world.settings, world.view, world.topic
    landing = landing_table(settings, topic.name)
    target = settings.home.parent / "handwritten-speed"
    with world.spark() as spark:

        def platform() -> Sample:
            shutil.rmtree(VersionRef(settings, view.name, view.version).folder, ignore_errors=True)
            shutil.rmtree(VersionRef(settings, view.name, view.version).speed_checkpoint, ignore_errors=True)
            with spans(STAGES) as stages:
                begun = time.perf_counter()
                query = catch_up(spark, ViewHandle(settings, view, topic))
                return Sample(time.perf_counter() - begun, {**stages, **steps(query)})

        def by_hand() -> Sample:
            folder = world.scratch(target.name)
            begun = time.perf_counter()
            found = finish(handwritten.start(spark, landing, str(folder / "table"), folder / "checkpoint"))
            return Sample(time.perf_counter() - begun, found)

        samples = in_turn({PLATFORM: platform, HANDWRITTEN: by_hand}, world.runs, world.warm_ups(1))
        ours, read = VersionRef(settings, view.name, view.version).speed_table, spark.read.format("delta").load
        rows = check_same(read(ours), read(str(target / "table")), COLUMNS)
        layout = check_layout(ours, str(target / "table"))
    events = landed_events(world)
    speed = ratios(samples[HANDWRITTEN], samples[PLATFORM])
    return Report(
        "speed",
        "The speed layer catches up",
        f"`departure_delays` over {events:,} landed events, from an empty checkpoint to the newest epoch, beside a "
        "hand-written stream over the same landing table (window aggregate, foreachBatch into Delta, no drop check, "
        "no cut).",
        (jobs_table(samples, events, HANDWRITTEN), stages_table(samples)),
        (Figure("speed.speed", "speed of catching up, of hand-written", speed, limit=0.95),),
        (f"Both made the same {rows:,} rows.", layout),
        all_seconds(samples),
    )
