"""Run one view as a stream over landing: whole epochs in, one commit per micro-batch out."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
from deltalake import DeltaTable
from pyspark.errors import StreamingQueryException
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.query import StreamingQuery

from anabranch.errors import TryAgain
from anabranch.events import Topic
from anabranch.landing.watermark import watermark_at
from anabranch.settings import Settings
from anabranch.spark import LIVE
from anabranch.speed.covered import LandingLog
from anabranch.speed.partitions import PartitionSink
from anabranch.speed.sink import Sink
from anabranch.speed.table import SpeedTable
from anabranch.tables import Cut
from anabranch.tables.checkpoints import clear_unstarted
from anabranch.tables.commits import open_table
from anabranch.tables.layout import landing_table, speed_checkpoint, speed_table
from anabranch.views.definition import CHANGED, View
from anabranch.views.inputs import events_of, frames, rows_at, rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# A rate limit can split an epoch over two micro-batches, and then the watermark drops on-time rows.
_UNLIMITED = str(2**31 - 1)
_STREAM_CONF = {
    # For micro-batches of some thousand rows, planning again at run time costs more than it saves.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
}


class SpeedQuery(StreamingQuery):
    """A running view: Spark's StreamingQuery, with what its sink knows."""

    def __init__(self, query: StreamingQuery, view: View, sink: Sink) -> None:
        super().__init__(query._jsq)
        self.view = view
        self.sink = sink

    @property
    def failure(self) -> BaseException | None:
        """The error that stopped the stream: the sink's own where it was that, else Spark's; None while it runs."""
        if self.isActive:
            return None
        return self.sink.failure or self.exception()


def start(
    spark: SparkSession, settings: Settings, view: View, topic: Topic, *, available_now: bool = False
) -> SpeedQuery:
    """Start the stream of ``view`` from its checkpoint; with ``available_now`` it ends when it has caught up.

    Called at each start of the platform, after whatever ended the last one: a micro-batch that was committed but not
    checkpointed comes again and is left out. TryAgain LANDING_ABSENT: nothing has been landed yet. Conflict
    DEFINITION_CHANGED: the table belongs to another definition of this version. Not promised: two processes that run
    the same view at the same time (one of them stops with an error; the table stays right).
    """
    landing = landing_table(settings, topic.name)
    if open_table(landing) is None:
        raise TryAgain(
            "LANDING_ABSENT",
            f"{view.name} v{view.version}: topic {topic.name} has no landing table yet",
            state="nothing was started",
            next_step="start landing, or wait for it",
            topic=topic.name,
        )
    own = spark.newSession()
    conf = _STREAM_CONF if available_now else {**_STREAM_CONF, **LIVE}
    for key, value in {**conf, "spark.sql.shuffle.partitions": str(settings.shuffle_partitions)}.items():
        own.conf.set(key, value)
    checkpoint = speed_checkpoint(settings, view.name, view.version)
    clear_unstarted(checkpoint)
    again = view.refresh == "partitions"
    compute = partial(rows_at, own, settings, view, topic, late=False)
    rows = compute(Cut(), []) if again else stream_of(own, landing, view, topic)
    schema = to_arrow_schema(rows.schema, timezone="UTC").append(pa.field(CHANGED, pa.int64()))
    table = SpeedTable(speed_table(settings, view.name, view.version), view, schema)
    common = (own, table, LandingLog(landing), checkpoint, topic.name, settings.small_commit_rows)
    sink = PartitionSink(*common, compute, lambda cut: _watermark(landing, topic, cut)) if again else Sink(*common)
    changes = events_of(landed_stream(own, landing), view, late=False) if again else rows
    writer = changes.writeStream.outputMode("update").foreachBatch(sink).queryName(f"{view.writer}/speed")
    writer = writer.option("checkpointLocation", str(checkpoint))
    if available_now:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=settings.trigger_interval)
    return SpeedQuery(writer.start(), view, sink)


def _watermark(landing: str, topic: Topic, cut: Cut) -> datetime | None:
    return watermark_at(DeltaTable(landing), topic, cut.epoch(topic.name))


def catch_up(spark: SparkSession, settings: Settings, view: View, topic: Topic) -> SpeedQuery:
    """Run the stream until it covers all that is landed now; raises the error that stopped it before."""
    query = start(spark, settings, view, topic, available_now=True)
    try:
        query.awaitTermination()
    except StreamingQueryException as error:
        raise (query.sink.failure or error) from None
    return query


def stream_of(spark: SparkSession, landing: str, view: View, topic: Topic) -> DataFrame:
    """The view's rows as a streaming DataFrame over the landing table, which is read once."""
    events = events_of(landed_stream(spark, landing), view, late=False)
    if not view.kappa:
        events = events.withWatermark(
            "event_time", f"{topic.allowed_lateness // timedelta(milliseconds=1)} milliseconds"
        )
    return rows_of(view, frames(events, view, topic))


def landed_stream(spark: SparkSession, landing: str) -> DataFrame:
    """The landing table as a stream of whole epochs."""
    return spark.readStream.format("delta").option("maxFilesPerTrigger", _UNLIMITED).load(landing)
