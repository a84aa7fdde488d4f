"""The log as a Spark source: which offsets a new query starts from, and what would be lost if it started."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from anabranch.contracts import Topic
from anabranch.core.errors import Conflict
from anabranch.core.settings import Settings
from anabranch.ingest.kafka.admin import begin_offsets, end_offsets
from anabranch.ingest.kafka.auth import java_client

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read_log(spark: SparkSession, settings: Settings, topic: Topic, start: Mapping[int, int]) -> DataFrame:
    """A stream of the records of ``topic``; ``start`` counts for a query without a checkpoint only."""
    from pyspark.sql import functions as F

    reader = (
        spark.readStream.format("kafka")
        .option("subscribe", topic.name)
        .option("startingOffsets", json.dumps({topic.name: {str(k): v for k, v in start.items()}}))
        .option("maxOffsetsPerTrigger", settings.max_offsets_per_trigger)
        .option("failOnDataLoss", "true")
        # A consumer that has read to the log's end is asked again while its last request still waits there for more.
        .option("kafka.fetch.max.wait.ms", 50)
    )
    for name, value in _client(settings).items():
        reader = reader.option(name, value)
    return reader.load().select("topic", "partition", "offset", F.col("timestamp").alias("append_time"), "key", "value")


def read_range(
    spark: SparkSession, settings: Settings, topic: Topic, offsets: Mapping[int, tuple[int, int]]
) -> DataFrame:
    """The records of ``topic`` from an offset up to, not including, another one, by partition; those of a partition
    that isn't named are left out."""
    from pyspark.sql import functions as F

    first, last = ({str(p): span[end] for p, span in offsets.items()} for end in (0, 1))
    reader = (
        spark.read.format("kafka")
        .option("assign", json.dumps({topic.name: sorted(offsets)}))
        .option("startingOffsets", json.dumps({topic.name: first}))
        .option("endingOffsets", json.dumps({topic.name: last}))
        .option("failOnDataLoss", "true")
    )
    for name, value in _client(settings).items():
        reader = reader.option(name, value)
    return reader.load().select("topic", "partition", "offset", F.col("timestamp").alias("append_time"), "key", "value")


def _client(settings: Settings) -> dict[str, str]:
    """The options of Spark's consumers. Records of a transaction are read once it is committed: a micro-batch ends
    before the first one that is open."""
    known = {**java_client(settings), "bootstrap.servers": settings.brokers, "isolation.level": "read_committed"}
    return {f"kafka.{name}": value for name, value in known.items()}


def check_nothing_lost(settings: Settings, topic: Topic, landed: Mapping[int, int]) -> None:
    """Conflict OFFSETS_LOST when the broker has deleted records that were never landed."""
    check_against_broker(topic, landed, begin_offsets(settings, topic.name), end_offsets(settings, topic.name))


def check_against_broker(
    topic: Topic, landed: Mapping[int, int], begin: Mapping[int, int], end: Mapping[int, int]
) -> None:
    """The same, where the log's ``begin`` and ``end`` are known; what it raises."""
    lost = {p: (landed.get(p, 0), start) for p, start in begin.items() if landed and start > landed.get(p, 0)}
    if lost:
        ranges = ", ".join(f"{topic.name}/{p}: {a}..{b - 1} ({b - a} records)" for p, (a, b) in sorted(lost.items()))
        raise Conflict(
            "OFFSETS_LOST",
            f"the log has deleted records before they were landed: {ranges}",
            state="landing stands where it was; nothing was skipped",
            next_step=f"restore them, or accept the loss, on the record: anabranch landing accept-loss {topic.name}",
            topic=topic.name,
            lost=lost,
        )
    ahead = {p: (until, end.get(p, 0)) for p, until in landed.items() if until > end.get(p, 0)}
    if ahead:
        raise Conflict(
            "LOG_REPLACED",
            f"landing is ahead of the log (landed, log's end): {ahead}: the topic was deleted and made again",
            state="nothing was landed from the new log",
            next_step="send the new log to a topic of another name, or bring the old one back",
            topic=topic.name,
            ahead=ahead,
        )


def check_same_log(topic: Topic, known: str, found: str) -> None:
    """Conflict LOG_REPLACED when the topic isn't the one that was landed, however many records it holds."""
    if known and found != known:
        raise Conflict(
            "LOG_REPLACED",
            f"topic {topic.name} was deleted and made again: the broker's id of it is {found}, what was landed came "
            f"from {known}",
            state="nothing was landed from the new log",
            next_step="send the new log to a topic of another name; if it holds the same records at the same offsets "
            f"(a copy of the old cluster), say so: anabranch landing accept-log {topic.name}",
            topic=topic.name,
            log=found,
        )


def starting_offsets(settings: Settings, topic: Topic, landed: Mapping[int, int]) -> dict[int, int]:
    """Where a query without a checkpoint starts: where landing stands; on a new table the log's beginning."""
    return {p: landed.get(p, start) for p, start in begin_offsets(settings, topic.name).items()}
