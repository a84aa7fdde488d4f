"""Kafka as a Spark source: the start offsets of a new query, and checks that the log still holds what it needs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from anabranch.contracts import Topic
from anabranch.core.errors import Conflict
from anabranch.core.settings import Settings
from anabranch.ingest.kafka.admin import begin_offsets, end_offsets
from anabranch.ingest.kafka.auth import java_client
from anabranch.ingest.landing.table.schema import RECORD

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read_log(spark: SparkSession, settings: Settings, topic: Topic, start: Mapping[int, int]) -> DataFrame:
    """A stream of the records of ``topic``; ``start`` is used only by a query without a checkpoint."""
    reader = (
        spark.readStream.format("kafka")
        .option("includeHeaders", "true")
        .option("subscribe", topic.in_kafka)
        .option("startingOffsets", json.dumps({topic.in_kafka: {str(k): v for k, v in start.items()}}))
        .option("maxOffsetsPerTrigger", settings.max_offsets_per_trigger)
        .option("failOnDataLoss", "true")
        # A consumer at the end of the log is polled again while its last fetch request still waits at the broker.
        .option("kafka.fetch.max.wait.ms", 50)
    )
    for name, value in _client(settings).items():
        reader = reader.option(name, value)
    return _records(reader.load(), topic)


def read_range(
    spark: SparkSession, settings: Settings, topic: Topic, offsets: Mapping[int, tuple[int, int]]
) -> DataFrame:
    """The records of ``topic`` in a range of offsets (the end is exclusive), by partition; partitions that aren't named
    are left out."""
    first, last = ({str(p): span[end] for p, span in offsets.items()} for end in (0, 1))
    reader = (
        spark.read.format("kafka")
        .option("includeHeaders", "true")
        .option("assign", json.dumps({topic.in_kafka: sorted(offsets)}))
        .option("startingOffsets", json.dumps({topic.in_kafka: first}))
        .option("endingOffsets", json.dumps({topic.in_kafka: last}))
        .option("failOnDataLoss", "true")
    )
    for name, value in _client(settings).items():
        reader = reader.option(name, value)
    return _records(reader.load(), topic)


def _records(loaded: DataFrame, topic: Topic) -> DataFrame:
    from pyspark.sql import functions as F

    found = loaded.withColumnRenamed("timestamp", "append_time").select(*RECORD)
    return found if topic.in_kafka == topic.name else found.withColumn("topic", F.lit(topic.name))


def _client(settings: Settings) -> dict[str, str]:
    """The options of Spark's consumers. Records of a transaction are read after its commit: a micro-batch ends before
    the first open one."""
    known = {**java_client(settings), "bootstrap.servers": settings.brokers, "isolation.level": "read_committed"}
    return {f"kafka.{name}": value for name, value in known.items()}


def check_nothing_lost(settings: Settings, topic: Topic, landed: Mapping[int, int]) -> None:
    """Raises Conflict OFFSETS_LOST if the broker has deleted records that were never landed, LOG_REPLACED if landing is
    ahead of the log."""
    check_against_broker(topic, landed, begin_offsets(settings, topic.in_kafka), end_offsets(settings, topic.in_kafka))


def check_against_broker(
    topic: Topic, landed: Mapping[int, int], begin: Mapping[int, int], end: Mapping[int, int]
) -> None:
    """The same for a log whose ``begin`` and ``end`` offsets are already known."""
    lost = {p: (landed.get(p, 0), start) for p, start in begin.items() if landed and start > landed.get(p, 0)}
    if lost:
        ranges = ", ".join(f"{topic.name}/{p}: {a}..{b - 1} ({b - a} records)" for p, (a, b) in sorted(lost.items()))
        raise Conflict(
            "OFFSETS_LOST",
            f"the log has deleted records before they were landed: {ranges}",
            state="landing stays where it was; nothing was skipped",
            next_step=f"restore them, or accept the loss (it is recorded): anabranch landing accept-loss {topic.name}",
            topic=topic.name,
            lost=lost,
        )
    ahead = {p: (until, end.get(p, 0)) for p, until in landed.items() if until > end.get(p, 0)}
    if ahead:
        raise Conflict(
            "LOG_REPLACED",
            f"landing is ahead of the log (landed, end of the log): {ahead}: the topic was deleted and created again",
            state="nothing was landed from the new log",
            next_step="send the new events to a topic of another name, or restore the old topic",
            topic=topic.name,
            ahead=ahead,
        )


def check_same_log(topic: Topic, known: str, found: str) -> None:
    """Raises Conflict LOG_REPLACED if the topic isn't the one that was landed, however many records it holds."""
    if known and found != known:
        raise Conflict(
            "LOG_REPLACED",
            f"topic {topic.full_name} was deleted and created again, or its declaration named another one before "
            f"(kafka_topic): the broker's id for it is {found}, but what was landed came from {known}",
            state="nothing was landed from the new log",
            next_step="undo the change of kafka_topic, or declare the other topic by a name of its own; send the new "
            "events to a topic of another name; if the topic holds the same records at the same offsets (a copy of the "
            f"old cluster), confirm that: anabranch landing accept-log {topic.name}",
            topic=topic.name,
            log=found,
        )


def starting_offsets(settings: Settings, topic: Topic, landed: Mapping[int, int]) -> dict[int, int]:
    """The start offsets of a query without a checkpoint: the end of what was landed; for a new table the log's
    begin."""
    return {p: landed.get(p, start) for p, start in begin_offsets(settings, topic.in_kafka).items()}
