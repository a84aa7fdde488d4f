"""The one streaming query that writes a topic's landing table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.events import Topic
from anabranch.landing.decode import decode
from anabranch.landing.source import check_nothing_lost, read_log, starting_offsets
from anabranch.landing.state import landed, open_landing
from anabranch.landing.writer import LandingWriter
from anabranch.settings import Settings
from anabranch.spark import LIVE
from anabranch.tables.checkpoints import clear_unstarted, started
from anabranch.tables.layout import landing_checkpoint

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


STREAM_CONF = {
    # One stage's code of all rules is longer than a method may be: Spark tries to compile it in vain, each time.
    "spark.sql.codegen.wholeStage": "false",
    # It would parse every record as a variant, which only the doubtful ones need: AND's right side counts as used.
    "spark.sql.subexpressionElimination.enabled": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
}


def start(spark: SparkSession, settings: Settings, topic: Topic, *, once: bool = False) -> StreamingQuery:
    """Start landing ``topic``; with ``once`` it ends when what the log holds now is landed.

    Safe to call after any crash, with or without the old checkpoint. Raises OFFSETS_LOST, LOG_REPLACED,
    BROKER_UNREACHABLE before anything is written. Not promised: two landings of one topic at the same time (one of
    them fails with TABLE_MOVED or OFFSET_GAP, and nothing is landed twice).
    """
    checkpoint = landing_checkpoint(settings, topic.name)
    clear_unstarted(checkpoint)
    table = open_landing(settings, topic)
    position = landed(table, topic)
    check_nothing_lost(settings, topic, position.offsets)
    begin = {} if started(checkpoint) else starting_offsets(settings, topic, position.offsets)
    own = spark.newSession()
    for key, value in {**STREAM_CONF, **({} if once else LIVE)}.items():
        own.conf.set(key, value)
    # More tasks than cores cost more than they bring: for few records the task itself, for many the files of each day.
    records = read_log(own, settings, topic, begin).coalesce(settings.shuffle_partitions)
    writer = LandingWriter(settings, topic, table, checkpoint)
    query = (
        decode(records, topic)
        .writeStream.foreachBatch(writer)
        .option("checkpointLocation", str(checkpoint))
        .queryName(f"landing/{topic.name}")
        .outputMode("append")
    )
    if once:
        return query.trigger(availableNow=True).start()
    return query.trigger(processingTime=settings.landing_interval).start()
