"""The one streaming query that writes a topic's landing table."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from anabranch.contracts import Topic
from anabranch.core.errors import AnabranchError, TryAgain, root_cause
from anabranch.core.settings import Settings
from anabranch.core.spark import LIVE
from anabranch.ingest.kafka.admin import topic_id
from anabranch.ingest.landing.decode import decode
from anabranch.ingest.landing.epoch_pacing import rest
from anabranch.ingest.landing.kafka_source import check_nothing_lost, check_same_log, read_log, starting_offsets
from anabranch.ingest.landing.resume import can_resume
from anabranch.ingest.landing.state import open_landing, read_state, writer_of
from anabranch.ingest.landing.writer import LandingWriter
from anabranch.lake.layout import landing_checkpoint, turns
from anabranch.lake.writer_fencing import WriterFence, acquire
from pyspark.sql.streaming.query import StreamingQuery

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


STREAM_CONF = {
    # One stage's code of all rules is longer than a method may be: Spark tries to compile it in vain, each time.
    "spark.sql.codegen.wholeStage": "false",
    # It would parse every record as a variant, which only the doubtful ones need: AND's right side counts as used.
    "spark.sql.subexpressionElimination.enabled": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
}


class LandingQuery(StreamingQuery):
    """Landing of one topic as it runs: Spark's StreamingQuery, with what its writer knows."""

    def __init__(self, query: StreamingQuery, topic: Topic, writer: LandingWriter) -> None:
        super().__init__(query._jsq)
        self.topic = topic
        self.run = str(query.runId)
        """What the engine calls this run of it."""
        self.batches = writer.batches
        self._writer = writer

    @property
    def has_landed(self) -> bool:
        """Whether it has done a micro-batch since it was started."""
        return self.batches.usual is not None

    @property
    def failure(self) -> AnabranchError | None:
        """The error that stopped it: the writer's own where it was that, else what the engine says (mostly that the
        broker doesn't answer: the next start says so); None while it runs."""
        if self.isActive:
            return None
        return (
            self._writer.failure
            or self._writer.turn.lost()
            or TryAgain(
                "LANDING_ENDED",
                f"landing of {self.topic.name} ended: {root_cause(self.exception())}",
                state="everything up to the table's newest epoch is landed",
                next_step="nothing: it is started again by itself, and says then what is wrong",
                topic=self.topic.name,
            )
        )


def take_turn(settings: Settings, topic: Topic) -> WriterFence:
    return acquire(turns(settings), writer_of(topic))


def start(
    spark: SparkSession, settings: Settings, topic: Topic, *, once: bool = False, turn: WriterFence | None = None
) -> LandingQuery:
    """Start landing ``topic``; with ``once`` it ends when what the log holds now is landed.

    Safe to call after any crash, with or without the old checkpoint. Raises OFFSETS_LOST, LOG_REPLACED,
    BROKER_UNREACHABLE before anything is written. Of two landings of one topic the one that started last goes on, the
    other ends with FENCED. ``turn``: that of a process which starts again what it has started before.
    """
    turn = turn or take_turn(settings, topic)
    turn.check()
    checkpoint = landing_checkpoint(settings, topic.name)
    table = open_landing(settings, topic)
    position, log = read_state(table, topic), topic_id(settings, topic.name)
    check_same_log(topic, position.log, log)
    check_nothing_lost(settings, topic, position.offsets)
    going_on = can_resume(checkpoint, topic.name, position.offsets)
    begin = {} if going_on else starting_offsets(settings, topic, position.offsets)
    own = spark.newSession()
    for key, value in {**STREAM_CONF, **({} if once else LIVE)}.items():
        own.conf.set(key, value)
    # More tasks than cores cost more than they bring: for few records the task itself, for many the files of each day.
    records = read_log(own, settings, topic, begin).coalesce(settings.shuffle_partitions)
    writer = LandingWriter(settings, topic, table, checkpoint, log, turn)
    if not once:
        writer.resting = partial(rest, settings)
    stream = (
        decode(records, topic)
        .writeStream.foreachBatch(writer)
        .option("checkpointLocation", str(checkpoint))
        .queryName(f"landing/{topic.name}")
        .outputMode("append")
    )
    if once:
        return LandingQuery(stream.trigger(availableNow=True).start(), topic, writer)
    return LandingQuery(stream.trigger(processingTime=settings.landing_interval).start(), topic, writer)
