"""Landing a full topic: the platform's, beside a hand-written stream with and without the duplicate operator."""

from __future__ import annotations

import shutil
import time

from anabranch.core.settings import Settings
from anabranch.ingest.landing.stream import start
from anabranch.lake.layout import landing_table

from benchmarks.fairness import check_layout, check_same
from benchmarks.figures import Figure, Report, Sample, all_seconds, jobs_table, middle, ratios, stages_table
from benchmarks.handwritten import landing as handwritten
from benchmarks.timing import finish, in_turn, spans
from benchmarks.world import World, landed_events

PLATFORM, HANDWRITTEN, UNCHECKED = "platform", "hand-written", "hand-written, duplicates kept"
STAGES = {
    "Spark reads, decides, writes the files": "anabranch.ingest.landing.writer:stage_frame",
    "what was decided is read back": "anabranch.ingest.landing.writer:read_columns",
    "ids hashed and looked up": "anabranch.ingest.landing.duplicates:Duplicates.find_duplicates",
    "duplicates taken out of the files": "anabranch.ingest.landing.writer:without_duplicates",
    "ids taken into the index": "anabranch.ingest.landing.duplicates:Duplicates.record_committed",
    "commit": "anabranch.ingest.landing.epochs:append",
}
COLUMNS = (
    *("topic", "partition", "offset", "append_time", "key", "value", "event_id", "source", "type", "subject"),
    *("contract_version", "device_time", "senttime", "receivedtime", "event_time", "event_date"),
    *(name.replace(".", "_") for name in handwritten.TYPES),
)


def run(world: World) -> Report:
    settings, topic = world.settings, world.topic
    home = settings.home.parent / "landing-platform"
    with world.spark() as spark:

        def platform() -> Sample:
            fresh: Settings = world.fresh(home.name)
            with spans(STAGES) as stages:
                begun = time.perf_counter()
                found = finish(start(spark, fresh, topic, once=True))
                return Sample(time.perf_counter() - begun, {**stages, **found})

        def by_hand(name: str, unique: bool) -> Sample:
            folder = world.scratch(name)
            begun = time.perf_counter()
            table, checkpoint = str(folder / "table"), folder / "checkpoint"
            found = finish(
                handwritten.start(
                    spark, settings.brokers, table, checkpoint, settings.max_offsets_per_trigger, unique=unique
                )
            )
            return Sample(time.perf_counter() - begun, found)

        jobs = {
            PLATFORM: platform,
            HANDWRITTEN: lambda: by_hand("landing-unique", True),
            UNCHECKED: lambda: by_hand("landing-unchecked", False),
        }
        samples = in_turn(jobs, world.runs, world.warm_ups(1))
        ours = landing_table(settings.model_copy(update={"home": home}), topic.name)
        theirs, read = str(home.parent / "landing-unique" / "table"), spark.read.format("delta").load
        rows = check_same(read(ours).where("decision = 'valid'"), read(theirs), COLUMNS)
        layout = check_layout(ours, theirs)
    for name in (home.name, "landing-unique", "landing-unchecked"):
        shutil.rmtree(home.parent / name, ignore_errors=True)
    return _report(world, samples, rows, layout)


def _report(world: World, samples: dict[str, list[Sample]], rows: int, layout: str) -> Report:
    events = landed_events(world)
    operator = middle(samples[HANDWRITTEN]) - middle(samples[UNCHECKED])
    share = (
        f"The duplicate operator costs the hand-written stream {operator:.2f} s, "
        f"{operator / middle(samples[HANDWRITTEN]):.0%} of its time. What finding them costs the platform is in the "
        "table above: ids hashed, looked up and taken in, and duplicates taken out of the files."
    )
    rate = tuple(events / sample.seconds for sample in samples[PLATFORM])
    return Report(
        "landing",
        "Landing from a full topic",
        f"{events:,} records, at most {world.settings.max_offsets_per_trigger:,} in a micro-batch, into an empty home "
        "each time, beside a Kafka to Delta stream that parses the same columns and drops duplicates with Spark's own "
        "operator. The platform validates each record against its contract, decides late or on time, and proves that "
        "no offset is missing; the hand-written stream doesn't.",
        (jobs_table(samples, events, HANDWRITTEN), stages_table(samples)),
        (
            Figure(
                "landing.speed",
                "speed of landing, of hand-written",
                ratios(samples[HANDWRITTEN], samples[PLATFORM]),
                limit=0.9,
            ),
            Figure("landing.rate", "records landed a second", rate, digits=0, limit=50_000),
        ),
        (
            f"Both landed the same {rows:,} rows (coordinates, bytes, envelope and typed columns compared).",
            layout,
            share,
        ),
        all_seconds(samples),
    )
