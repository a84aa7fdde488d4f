"""Run one view as a stream over landing: whole epochs in, one commit per micro-batch out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from anabranch.compute.speed.checkpoint_handover import adopt
from anabranch.compute.speed.cut_resolver import CutResolver
from anabranch.compute.speed.failing_event import culprit
from anabranch.compute.speed.partition_sink import PartitionSink
from anabranch.compute.speed.sink import Sink, nobody
from anabranch.compute.speed.table import SpeedTable
from anabranch.contracts import Sources, Topic
from anabranch.core.errors import AnabranchError, BrokenState, TryAgain, root_cause
from anabranch.core.settings import Settings
from anabranch.core.spark import LIVE
from anabranch.ingest.landing.log_trimming import keep_commits
from anabranch.ingest.landing.schema import EVENT_DATE
from anabranch.lake import Cut
from anabranch.lake.commits import open_table
from anabranch.lake.layout import landing_table, replay_checkpoints, speed_checkpoint, speed_table, turns
from anabranch.lake.stream_checkpoint import check_readable, clear_unstarted
from anabranch.lake.writer_fencing import WriterFence, acquire
from anabranch.views.definition import View, changed_columns
from anabranch.views.inputs import (
    events_of,
    frames,
    prune,
    rows_at,
    rows_of,
    stream_of_events,
    union_topics,
    watermark_of,
)
from deltalake import DeltaTable
from pyspark.errors import StreamingQueryException
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.query import StreamingQuery

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# A rate limit can split an epoch over two micro-batches, and then the watermark drops on-time rows.
_UNLIMITED = str(2**31 - 1)
_NO_DATA = "spark.sql.streaming.noDataMicroBatches.enabled"
_STREAM_CONF = {
    # For micro-batches of some thousand rows, planning again at run time costs more than it saves.
    "spark.sql.adaptive.enabled": "false",
    _NO_DATA: "false",
}
_EXCLUDED = "spark.sql.optimizer.excludedRules"
_PUSHING = [
    f"org.apache.spark.sql.catalyst.optimizer.{rule}" for rule in ("PushDownPredicates", "PushPredicateThroughNonJoin")
]
_GROWN = "DELTA_SCHEMA_CHANGED"


class SpeedQuery(StreamingQuery):
    """A running view: Spark's StreamingQuery, with what its sink knows."""

    def __init__(self, query: StreamingQuery, view: View, sink: Sink) -> None:
        super().__init__(query._jsq)
        self.view = view
        self.sink = sink
        self.run = str(query.runId)
        """What the engine calls this run of it."""

    @property
    def failure(self) -> BaseException | None:
        """The error that stopped the stream: the sink's own where it was that, else Spark's; None while it runs.

        TryAgain LANDING_GREW: a contract has grown, and Delta stops each stream over a table whose schema changes.
        """
        if self.isActive:
            return None
        found = self.sink.failure or self.sink.table.lost() or self.exception()
        if _GROWN in str(found):
            return _grown(self.view)
        return found if found is None or isinstance(found, AnabranchError) else _ended(self, found)


@dataclass(frozen=True, slots=True)
class StreamLocation:
    """Where a stream reads and writes: a ``landing`` table for each topic, its ``table`` and its ``checkpoint``.
    ``days``: the only partitions whose rows have to be right (None: all)."""

    landing: Mapping[str, str] = field(hash=False)
    table: str
    checkpoint: Path
    days: tuple[date, ...] | None = None


def live_location(settings: Settings, view: View, topics: Sources) -> StreamLocation:
    """That of the speed layer. TryAgain LANDING_ABSENT."""
    return StreamLocation(
        {topic.name: _landing(settings, view, topic) for topic in topics.each},
        speed_table(settings, view.name, view.version),
        speed_checkpoint(settings, view.name, view.version),
    )


def take_turn(settings: Settings, view: View) -> WriterFence:
    return acquire(turns(settings), f"{view.writer}/speed")


def start(
    spark: SparkSession,
    settings: Settings,
    view: View,
    topics: Sources,
    *,
    available_now: bool = False,
    place: StreamLocation | None = None,
    turn: WriterFence | None = None,
) -> SpeedQuery:
    """Start the stream of ``view`` from its checkpoint, in its ``place`` (``live`` when left out); with
    ``available_now`` it ends when it has caught up.

    Called at each start of the platform, after whatever ended the last one: a micro-batch that was committed but not
    checkpointed comes again and is left out. Where a replay has replaced the live table meanwhile, its checkpoint takes
    the place of the stream's own. TryAgain LANDING_ABSENT: nothing has been landed yet. Conflict
    DEFINITION_CHANGED: the table belongs to another definition of this version. Of two processes that run
    the same view at the same time: the one that started last goes on, the other one ends with FENCED. ``turn``: that of
    a process which starts again what it has started before; a ``place`` that was given has none.
    """
    if place is None:
        turn = turn or take_turn(settings, view)
        turn.check()
        place = live_location(settings, view, topics)
        adopt(place.table, place.checkpoint, replay_checkpoints(settings, view.name, view.version))
    landing = place.landing
    own = spark.newSession()
    conf = _STREAM_CONF if available_now else {**_STREAM_CONF, **LIVE}
    if view.closed_only:
        # What new events have closed comes in a micro-batch without any. All records of a topic move its time: no
        # filter may be pushed below the node that looks at it.
        excluded = [*filter(None, [own.conf.get(_EXCLUDED, "")]), *_PUSHING]
        conf = {**conf, _NO_DATA: "true", _EXCLUDED: ",".join(excluded)}
    for key, value in {**conf, "spark.sql.shuffle.partitions": str(settings.shuffle_partitions)}.items():
        own.conf.set(key, value)
    clear_unstarted(place.checkpoint)
    check_readable(place.checkpoint)
    for uri in landing.values():
        keep_commits(settings, uri, place.checkpoint)
    again = view.refresh == "partitions"
    compute = partial(rows_at, own, settings, view, topics, late=False)
    rows = compute(Cut(), []) if again else stream_of(own, place, view, topics)
    changed = [pa.field(column, pa.int64()) for column in changed_columns(landing).values()]
    schema = pa.schema([*to_arrow_schema(rows.schema, timezone="UTC"), *changed])
    table = SpeedTable(place.table, view, schema, turn=turn)
    common = (own, table, CutResolver(landing, topics), place.checkpoint, settings.small_commit_rows)
    watermark, days = partial(watermark_of, settings, view, topics), partial(landed_days, view, topics, landing)
    # A processor's errors name their event by themselves.
    blame = nobody if view.closed_only else partial(culprit, own, landing, view, topics)
    many = (compute, watermark, days, place.days)
    sink = PartitionSink(*common, *many, blame=blame) if again else Sink(*common, blame=blame)
    changes = _changes(own, place, view, topics) if again else rows
    writer = changes.writeStream.outputMode("update").foreachBatch(sink).queryName(f"{view.writer}/speed")
    writer = writer.option("checkpointLocation", str(place.checkpoint))
    if available_now:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=settings.trigger_interval)
    return SpeedQuery(writer.start(), view, sink)


def _grown(view: View) -> TryAgain:
    return TryAgain(
        "LANDING_GREW",
        f"{view.name} v{view.version}: the contracts of its events have new fields, and landing's table has them too",
        state="the speed table ends at the batch before; the state is kept",
        next_step="start the stream again: it goes on where it was",
        view=view.name,
    )


def _ended(query: SpeedQuery, error: BaseException) -> BrokenState:
    """What the engine raised outside of the sink: where it reads landing, or its own checkpoint."""
    view, checkpoint = query.view, query.sink.checkpoint
    return BrokenState(
        "STREAM_FAILED",
        f"{view.origin}: the stream of {view.name} v{view.version} ended: {root_cause(error)}",
        state="nothing of its last batch was committed; the speed table ends at the batch before",
        next_step="mend what it says; it is tried again by itself. If a file of its checkpoint is broken: delete "
        f"{checkpoint}, and the stream builds the table again from landing",
        view=view.name,
    )


def _landing(settings: Settings, view: View, topic: Topic) -> str:
    uri = landing_table(settings, topic.name)
    if open_table(uri) is None:
        raise TryAgain(
            "LANDING_ABSENT",
            f"{view.name} v{view.version}: topic {topic.name} has no landing table yet",
            state="nothing was started",
            next_step="start landing, or wait for it",
            topic=topic.name,
        )
    return uri


def landed_days(view: View, topics: Sources, landing: Mapping[str, str]) -> list[date]:
    """The event dates of the topics that carry events of ``view`` (not of its tables only), from their Delta logs."""
    events = set(view.events) - set(view.tables)
    uris = [landing[topic.name] for topic in topics.each if events & set(topic.event_types)]
    days = {partition[EVENT_DATE] for uri in uris for partition in DeltaTable(uri).partitions()}
    return sorted(day if isinstance(day, date) else date.fromisoformat(day) for day in days if day)


def catch_up(spark: SparkSession, settings: Settings, view: View, topics: Sources) -> SpeedQuery:
    """Run the stream until it covers all that is landed now; raises the error that stopped it before."""
    query = start(spark, settings, view, topics, available_now=True)
    try:
        query.awaitTermination()
    except StreamingQueryException as error:
        raise (query.failure or error) from None
    return query


def stream_of(spark: SparkSession, place: StreamLocation, view: View, topics: Sources) -> DataFrame:
    """The view's rows as a streaming DataFrame over the landing tables, each of which is read once."""
    events = stream_of_events(view, topics, lambda topic: landed_stream(spark, place.landing[topic.name]))
    return rows_of(view, frames(_wanted(events, view, place), view, topics))


def _changes(spark: SparkSession, place: StreamLocation, view: View, topics: Sources) -> DataFrame:
    """The on-time events of ``view`` as a stream, for whoever only wants to know where there are new ones."""

    def events(topic: Topic) -> DataFrame:
        landed = landed_stream(spark, place.landing[topic.name])
        return _wanted(events_of(landed, view, late=False), view, place).select("topic", "type", EVENT_DATE)

    return union_topics(topics, events)


def _wanted(events: DataFrame, view: View, place: StreamLocation) -> DataFrame:
    return events if place.days is None else prune(events, view, place.days)


def landed_stream(spark: SparkSession, landing: str) -> DataFrame:
    """The landing table as a stream of whole epochs."""
    return spark.readStream.format("delta").option("maxFilesPerTrigger", _UNLIMITED).load(landing)
