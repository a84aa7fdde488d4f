"""Run one view as a stream over landing: it reads whole epochs and makes one commit per micro-batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.errors import StreamingQueryException
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.query import StreamingQuery

from anabranch.compute.speed._cut_resolver import CutResolver
from anabranch.compute.speed._failing_event import find_failing_event
from anabranch.compute.speed._partition_sink import PartitionSink
from anabranch.compute.speed._sink import Sink, no_failing_event
from anabranch.compute.speed.checkpoint_handover import adopt
from anabranch.compute.speed.table import SpeedTable
from anabranch.contracts import Topic
from anabranch.contracts.model.topics import Sources
from anabranch.core.engine.call_sites import call_sites
from anabranch.core.engine.spark import LIVE
from anabranch.core.errors import AnabranchError, BrokenState, TryAgain, root_cause
from anabranch.ingest.landing.log_trimming import keep_commits
from anabranch.ingest.landing.table.schema import EVENT_DATE
from anabranch.lake import open_table
from anabranch.lake.cut import Cut
from anabranch.lake.layout import VersionRef, landing_table, turns
from anabranch.lake.log.commit_log import only_appends
from anabranch.lake.log.delta_tables import delta_table
from anabranch.lake.streams.stream_checkpoint import check_readable, clear_unstarted, name_format
from anabranch.lake.streams.writer_fencing import WriterFence, acquire
from anabranch.views import View
from anabranch.views.model.definition import changed_columns
from anabranch.views.model.handle import ViewHandle
from anabranch.views.selection.inputs import (
    events_of,
    frames,
    prune,
    rows_at,
    rows_of,
    stream_of_events,
    union_topics,
    watermark_of,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# A rate limit can split an epoch over two micro-batches, and then the watermark drops on-time rows.
_UNLIMITED = str(2**31 - 1)
_SHORT_LOG = 100
"""Commits of a landing table that a new stream reads one by one, as it does with later ones, instead of the state that
they make: Spark sorts that in jobs of its own, a third of the CPU of a stream over a few events."""
_NO_DATA = "spark.sql.streaming.noDataMicroBatches.enabled"
_STREAM_CONF = {
    # For micro-batches of a few thousand rows adaptive execution costs more than it saves.
    "spark.sql.adaptive.enabled": "false",
    _NO_DATA: "false",
}
_EXCLUDED = "spark.sql.optimizer.excludedRules"
_PUSHDOWN_RULES = [
    f"org.apache.spark.sql.catalyst.optimizer.{rule}" for rule in ("PushDownPredicates", "PushPredicateThroughNonJoin")
]
_GREW = ("DELTA_SCHEMA_CHANGED", "assertion failed: Invalid batch: ")
"""What a stream's error says when its landing table got new columns: Delta notices it while it looks for new commits,
Spark if that came between the plan of a micro-batch and its read."""


class SpeedQuery(StreamingQuery):
    """The running stream of a view: Spark's StreamingQuery with its view and its sink."""

    def __init__(self, query: StreamingQuery, view: View, sink: Sink) -> None:
        super().__init__(query._jsq)
        self.view = view
        self.sink = sink
        self.run = str(query.runId)
        """Spark's id of this run of the query."""

    @property
    def failure(self) -> BaseException | None:
        """The error that stopped the stream: the sink's, if the sink failed, else Spark's; None while it runs.

        TryAgain LANDING_GREW: landing has new columns, of a contract or of a newer version of this package.
        """
        if self.isActive:
            return None
        found = self.sink.failure or self.sink.table.lost() or self.exception()
        if any(text in str(found) for text in _GREW):
            return _landing_grew(self.view)
        return found if found is None or isinstance(found, AnabranchError) else _ended(self, found)


@dataclass(frozen=True, slots=True)
class StreamLocation:
    """Where a stream reads and writes: the ``landing`` table of each topic, its own ``table`` and ``checkpoint``.
    ``days``: the only partitions whose rows are needed (None: all). ``replay``: the stream reads history again, so the
    one of a kappa view reads the events from files, too."""

    landing: Mapping[str, str] = field(hash=False)
    table: str
    checkpoint: Path
    days: tuple[date, ...] | None = None
    replay: bool = False


def live_location(view: ViewHandle) -> StreamLocation:
    """The location of the live speed layer. Raises TryAgain LANDING_ABSENT."""
    return StreamLocation(
        {topic.name: _landing(view, topic) for topic in view.topics.each},
        view.speed_table,
        view.speed_checkpoint,
    )


def acquire_fence(ref: VersionRef) -> WriterFence:
    """Makes this process the only writer of the view's speed table; the previous one ends with FENCED."""
    return acquire(turns(ref.settings), f"{ref.writer}/speed")


def start(
    spark: SparkSession,
    view: ViewHandle,
    *,
    available_now: bool = False,
    location: StreamLocation | None = None,
    fence: WriterFence | None = None,
) -> SpeedQuery:
    """Starts the stream of ``view`` from its checkpoint at ``location`` (default: ``live_location``). With
    ``available_now`` the stream ends when it has caught up.

    Called at each start of the platform, whatever ended the last run: a micro-batch that was committed but not
    checkpointed is repeated by Spark and skipped by the sink. If a replay has replaced the live table meanwhile, the
    stream continues with the replay's checkpoint. Of two processes that run the same view, the one that started last
    continues, and the other ends with FENCED. ``fence``: pass it when the same process starts the stream again; an
    explicit ``location`` has none.

    Raises TryAgain LANDING_ABSENT when nothing has landed yet, Conflict DEFINITION_CHANGED when another definition of
    this version owns the table.
    """
    if location is None:
        fence = fence or acquire_fence(view)
        fence.check()
        location = live_location(view)
        adopt(location.table, location.checkpoint, view.replay_checkpoints)
    landing = location.landing
    definition, topics, own = view.definition, view.topics, spark.newSession()
    conf = _STREAM_CONF if available_now else {**_STREAM_CONF, **LIVE}
    if definition.closed_only:
        # Rows that new events have closed come in a no-data micro-batch. All records of a topic advance its watermark,
        # so no filter may be pushed below the watermark node.
        excluded = [*filter(None, [own.conf.get(_EXCLUDED, "")]), *_PUSHDOWN_RULES]
        conf = {**conf, _NO_DATA: "true", _EXCLUDED: ",".join(excluded)}
    for key, value in {**conf, "spark.sql.shuffle.partitions": str(view.settings.shuffle_partitions)}.items():
        own.conf.set(key, value)
    clear_unstarted(location.checkpoint)
    check_readable(location.checkpoint)
    for uri in landing.values():
        keep_commits(view.settings, uri, location.checkpoint)
    by_partitions = definition.refresh == "partitions"

    def compute(cut: Cut, partitions: Sequence[date] | None, loaded: Mapping[str, int]) -> DataFrame:
        return rows_at(own, view, cut, partitions, late=False, loaded=loaded, landing=landing)

    rows = compute(Cut(), [], {}) if by_partitions else stream_of(own, location, definition, topics)
    changed = [pa.field(column, pa.int64()) for column in changed_columns(landing).values()]
    schema = pa.schema([*to_arrow_schema(rows.schema, timezone="UTC"), *changed])
    table = SpeedTable(location.table, definition, schema, fence=fence, replay=location.replay)
    common = (own, table, CutResolver(landing, topics), location.checkpoint, view.settings.small_commit_rows)
    watermark, days = partial(watermark_of, view), partial(landed_days, definition, topics, landing)
    # An error in a processor already names its event.
    finder = (
        no_failing_event if definition.closed_only else partial(find_failing_event, own, landing, definition, topics)
    )
    more = (compute, watermark, days, location.days)
    sink = (
        PartitionSink(*common, *more, find_failing_event=finder)
        if by_partitions
        else Sink(*common, find_failing_event=finder)
    )
    changes = _changes(own, location, definition, topics) if by_partitions else rows
    writer = changes.writeStream.outputMode("update").foreachBatch(sink).queryName(f"{view.writer}/speed")
    writer = writer.option("checkpointLocation", str(location.checkpoint))
    if available_now:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=view.settings.trigger_interval)
    name_format(location.checkpoint)
    return SpeedQuery(writer.start(), definition, sink)


def _landing_grew(view: View) -> TryAgain:
    return TryAgain(
        "LANDING_GREW",
        f"{view.name} v{view.version}: its landing table has new columns",
        state="the speed table ends at the previous batch; the stream's state is kept",
        next_step="start the stream again: it continues where it was",
        view=view.name,
    )


def _ended(query: SpeedQuery, error: BaseException) -> BrokenState:
    """Wraps what Spark raised outside the sink: reading landing, or its own checkpoint; it also writes that behind the
    sink's commit."""
    view, checkpoint = query.view, query.sink.checkpoint
    return BrokenState(
        "STREAM_FAILED",
        f"{view.origin}: the stream of {view.name} v{view.version} ended: {root_cause(error)}",
        state=f"the speed table ends at {query.sink.cut}, its last commit; nothing is committed twice",
        next_step="fix the cause; the stream is retried automatically. If a file of its checkpoint is broken: delete "
        f"{checkpoint}, and the stream builds the table again from landing",
        view=view.name,
    )


def _landing(view: ViewHandle, topic: Topic) -> str:
    uri = landing_table(view.settings, topic.name)
    if open_table(uri) is None:
        raise TryAgain(
            "LANDING_ABSENT",
            f"{view}: topic {topic.name} has no landing table yet",
            state="nothing was started",
            next_step="start landing, or wait for it",
            topic=topic.name,
        )
    return uri


def landed_days(view: View, topics: Sources, landing: Mapping[str, str]) -> list[date]:
    """The event dates of the topics that carry events of ``view`` (other than its ``tables``), from their Delta
    logs."""
    events = set(view.events) - set(view.tables)
    uris = [landing[topic.name] for topic in topics.each if events & set(topic.event_types)]
    days = {partition[EVENT_DATE] for uri in uris for partition in delta_table(uri).partitions()}
    return sorted(day if isinstance(day, date) else date.fromisoformat(day) for day in days if day)


def catch_up(spark: SparkSession, view: ViewHandle) -> SpeedQuery:
    """Runs the stream until it covers everything that has landed. Raises the error that stopped it earlier."""
    query = start(spark, view, available_now=True)
    try:
        query.awaitTermination()
    except StreamingQueryException as error:
        raise (query.failure or error) from None
    return query


def stream_of(spark: SparkSession, location: StreamLocation, view: View, topics: Sources) -> DataFrame:
    """The view's rows as a streaming DataFrame over the landing tables, each of which is read once."""
    tables = location.landing
    events = stream_of_events(
        view, topics, lambda topic: landed_stream(spark, tables[topic.name]), replay=location.replay
    )
    inputs = frames(_needed(events, view, location), view, topics)
    with call_sites():
        return rows_of(view, inputs)


def _changes(spark: SparkSession, location: StreamLocation, view: View, topics: Sources) -> DataFrame:
    """The topic, type and event date of the stream's events: where there are new ones."""

    def events(topic: Topic) -> DataFrame:
        landed = landed_stream(spark, location.landing[topic.name])
        own = events_of(landed, view, late=False, loaded=None if location.replay else 0)
        return _needed(own, view, location).select("topic", "type", EVENT_DATE)

    return union_topics(topics, events)


def _needed(events: DataFrame, view: View, location: StreamLocation) -> DataFrame:
    return events if location.days is None else prune(events, view, location.days)


def landed_stream(spark: SparkSession, landing: str) -> DataFrame:
    """The landing table as a stream of whole epochs."""
    reader = spark.readStream.format("delta").option("maxFilesPerTrigger", _UNLIMITED)
    if only_appends(delta_table(landing), _SHORT_LOG):
        reader = reader.option("startingVersion", "0")
    return reader.load(landing)
