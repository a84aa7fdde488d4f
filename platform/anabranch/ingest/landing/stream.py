"""Starts the streaming query that writes a topic's landing table."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql.streaming.query import StreamingQuery

from anabranch.contracts import Topic
from anabranch.core.engine.spark import LIVE
from anabranch.core.errors import AnabranchError, TryAgain, root_cause
from anabranch.core.settings import Settings
from anabranch.ingest.kafka.admin import begin_offsets, topic_id
from anabranch.ingest.landing.checkpoint import can_resume
from anabranch.ingest.landing.decoding import decode, decode_fast
from anabranch.ingest.landing.epoch_pacing import pace_epoch
from anabranch.ingest.landing.kafka_source import check_nothing_lost, check_same_log, read_log, starting_offsets
from anabranch.ingest.landing.state import open_landing, read_state, writer_of
from anabranch.ingest.landing.writer import LandingWriter
from anabranch.ingest.schema_registry import asking_registry
from anabranch.lake.layout import landing_checkpoint, turns
from anabranch.lake.streams.stream_checkpoint import name_format, refuse_newer
from anabranch.lake.streams.writer_fencing import WriterFence, acquire

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


STREAM_CONF = {
    # The generated code of all rules in one stage exceeds the JVM's method limit: Spark compiles it in vain each time.
    "spark.sql.codegen.wholeStage": "false",
    # It would parse every record as a variant, though only doubtful records need that: it ignores that AND is lazy.
    "spark.sql.subexpressionElimination.enabled": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
}


class LandingQuery(StreamingQuery):
    """A running landing query of one topic: Spark's StreamingQuery, with the state of its writer."""

    def __init__(self, query: StreamingQuery, topic: Topic, writer: LandingWriter) -> None:
        super().__init__(query._jsq)
        self.topic = topic
        self.run = str(query.runId)
        """The engine's id of this run."""
        self.batches = writer.batches
        self._writer = writer

    @property
    def has_landed(self) -> bool:
        """Whether it has finished a micro-batch since it was started."""
        return self.batches.usual is not None

    @property
    def failure(self) -> AnabranchError | None:
        """The error that stopped it; None while it runs. If neither the writer nor its fence has one, it is the
        engine's (usually the broker doesn't answer; the next start then reports that)."""
        if self.isActive:
            return None
        return (
            self._writer.failure
            or self._writer.turn.lost()
            or TryAgain(
                "LANDING_ENDED",
                f"landing of {self.topic.name} ended: {root_cause(self.exception())}",
                state="everything up to the table's newest epoch is landed",
                next_step="nothing: it restarts by itself, and then reports what is wrong",
                topic=self.topic.name,
            )
        )


def take_turn(settings: Settings, topic: Topic) -> WriterFence:
    return acquire(turns(settings), writer_of(topic))


def start(
    spark: SparkSession, settings: Settings, topic: Topic, *, once: bool = False, turn: WriterFence | None = None
) -> LandingQuery:
    """Start landing ``topic``; with ``once`` it ends when it has landed what the log holds now.

    Safe to call after any crash, with or without the old checkpoint. Raises OFFSETS_LOST, LOG_REPLACED or
    BROKER_UNREACHABLE before anything is written. Of two landings of one topic the one that started last continues, the
    other ends with FENCED. ``turn``: the fence of a process that restarts a query.
    """
    turn = turn or take_turn(settings, topic)
    turn.check()
    topic = asking_registry(settings, topic)
    checkpoint = landing_checkpoint(settings, topic.name)
    refuse_newer(checkpoint)
    table = open_landing(settings, topic)
    position, log = read_state(table, topic), topic_id(settings, topic.in_kafka)
    check_same_log(topic, position.log, log)
    check_nothing_lost(settings, topic, position.offsets)
    log_begin = {} if position.offsets else begin_offsets(settings, topic.in_kafka)
    resumes = can_resume(checkpoint, topic.in_kafka, position.offsets, log_begin)
    begin = {} if resumes else starting_offsets(settings, topic, position.offsets)
    own = spark.newSession()
    for key, value in {**STREAM_CONF, **({} if once else LIVE)}.items():
        own.conf.set(key, value)
    # More tasks than cores cost more than they gain: each task has overhead, and writes a file for each day.
    records = read_log(own, settings, topic, begin).coalesce(settings.shuffle_partitions)
    decided = decode_fast(records, topic)
    writer = LandingWriter(settings, topic, table, checkpoint, log, turn, decoded_fast=decided is not None)
    if not once:
        writer.after_epoch = partial(pace_epoch, settings)
    name_format(checkpoint)
    stream = (
        (decode(records, topic) if decided is None else decided)
        .writeStream.foreachBatch(writer)
        .option("checkpointLocation", str(checkpoint))
        .queryName(f"landing/{topic.name}")
        .outputMode("append")
    )
    if once:
        return LandingQuery(stream.trigger(availableNow=True).start(), topic, writer)
    return LandingQuery(stream.trigger(processingTime=settings.landing_interval).start(), topic, writer)
