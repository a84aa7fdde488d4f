"""Select the landed rows that a view's function gets, and turn what it returns into rows of a table.

Every runner (speed, batch, certify, replay, tests) uses these functions, so "the events of a view" is defined once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, timedelta
from functools import reduce
from types import MappingProxyType
from typing import TYPE_CHECKING

from anabranch.contracts import Topic
from anabranch.contracts.model.topics import Sources
from anabranch.core.engine.call_sites import call_sites
from anabranch.ingest.landing.table.known_versions import check_known_at
from anabranch.ingest.landing.table.schema import EVENT_DATE, IS_EVENT, LOADED, VALID
from anabranch.ingest.landing.table.watermark import watermark_at
from anabranch.lake import CommitMetadata
from anabranch.lake.cut import Cut
from anabranch.lake.frames import table_rows
from anabranch.lake.layout import landing_table
from anabranch.lake.log.delta_tables import delta_table
from anabranch.views.model.definition import ENVELOPE, PARTITION_DATE, WATERMARK, View, definition_error, is_own
from anabranch.views.model.handle import ViewHandle
from anabranch.views.selection.upcast_select import select_newest

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


def events_of(landed: DataFrame, view: View, *, late: bool, loaded: int | None = 0) -> DataFrame:
    """The landed rows that are the view's input: valid events of its types; with ``late`` also those that only batch
    reads, which are the late and the loaded ones.

    The stream of a kappa view reads late events too; of the loaded ones those up to the epoch ``loaded`` (None: all),
    to which its last replay read."""
    types = ", ".join(f"'{name}'" for name in view.events)  # no quotes: the contracts check the names
    if late or (view.kappa and loaded is None):
        return landed.where(f"{IS_EVENT} AND type IN ({types})")
    decided = f"decision = '{VALID}'" + ("" if view.kappa else " AND NOT late")
    if view.kappa and loaded:
        decided = f"({decided} OR (decision = '{LOADED}' AND epoch <= {int(loaded)}))"
    return landed.where(f"{decided} AND type IN ({types})")


def prune(events: DataFrame, view: View, partitions: Sequence[date]) -> DataFrame:
    """Only the events that rows of ``partitions`` can need: by event date, with lookback and lookahead."""
    if view.kappa:
        return events
    days = needed_dates(view, partitions)
    inside = " OR ".join(f"{EVENT_DATE} BETWEEN DATE '{a}' AND DATE '{b}'" for a, b in _date_ranges(days)) or "false"
    if view.tables and days:
        names = ", ".join(f"'{name}'" for name in view.tables)
        inside = f"({inside}) OR (type IN ({names}) AND {EVENT_DATE} <= DATE '{days[-1]}')"
    return events.where(inside)


def _date_filter(view: View, partitions: Sequence[date] | None) -> Callable[[date | None], bool] | None:
    """Returns a predicate for the event dates that ``prune`` keeps rows of; None: all dates."""
    if view.kappa or partitions is None:
        return None
    days = frozenset(needed_dates(view, partitions))
    if view.tables and days:
        last = max(days)
        return lambda day: day is not None and (day in days or day <= last)
    return lambda day: day in days


def needed_dates(view: View, partitions: Sequence[date]) -> list[date]:
    """The event dates whose events can affect rows of ``partitions``."""
    day = timedelta(days=1)
    before, after = -(-view.lookback // day), -(-view.lookahead // day)
    return sorted({p + day * shift for p in partitions for shift in range(-before, after + 1)})


def events_at(
    spark: SparkSession,
    view: ViewHandle,
    cut: Cut,
    partitions: Sequence[date] | None,
    *,
    late: bool,
    watermark: datetime | None = None,
    loaded: Mapping[str, int] = MappingProxyType({}),
    landing: Mapping[str, str] = MappingProxyType({}),
) -> DataFrame:
    """The landed events up to ``cut`` that rows of ``partitions`` (None: all) can need, with or without late ones.

    ``watermark``: for a view that declares ``closes``, the watermark of a stream that is still behind the cut's.
    ``loaded``: see ``loaded_in``. ``landing``: the table of each topic, if they aren't the live ones. Raises Conflict
    CONTRACT_NEWER.

    The path of a landed file says of which day its rows are, and its footer of which epochs: rows are asked only where
    these don't decide.
    """
    by_row = partitions if view.definition.tables else None  # of earlier days these have only rows of some types

    def landed(topic: Topic) -> DataFrame:
        table = delta_table(landing.get(topic.name) or landing_table(view.settings, topic.name))
        epoch = cut.epoch(topic.name)
        check_known_at(table, topic, epoch)
        days = _date_filter(view.definition, partitions)
        rows = table_rows(spark, table, days, at_most=("epoch", epoch), partition_column=by_row is not None)
        return events_of(rows, view.definition, late=late, loaded=loaded.get(topic.name, 0))

    events = union_topics(view.topics, landed)
    if view.definition.closes:
        events = events.withColumn(WATERMARK, _literal(watermark or watermark_of(view, cut)))
    return events if by_row is None else prune(events, view.definition, by_row)


def union_topics(topics: Sources, landed: Callable[[Topic], DataFrame]) -> DataFrame:
    """The rows of ``landed`` for all topics as one DataFrame, with the columns of all; null where a topic has none."""
    from pyspark.sql import functions as F

    if len(topics.each) == 1:
        return landed(topics.each[0])
    # A literal, so that a filter on it skips the other topics' tables before they are read.
    tagged = (landed(topic).withColumn("topic", F.lit(topic.name)) for topic in topics.each)
    return reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), tagged)


def loaded_in(note: CommitMetadata) -> Mapping[str, int]:
    """The epochs by topic up to which a speed table holds events from files: those that a kappa view's last replay has
    read."""
    return {topic: int(epoch) for topic, epoch in note.extra.get(LOADED, {}).items()}


def stream_of_events(
    view: View, topics: Sources, landed: Callable[[Topic], DataFrame], *, replay: bool = False
) -> DataFrame:
    """The on-time events of ``view`` from its topics' streams, each with the watermark that landing decided by. The
    ``replay`` of a kappa view also reads the events from files.

    Spark uses the earliest watermark of all sources, so no source loses an event that landing calls on time.
    """

    def with_watermark(topic: Topic) -> DataFrame:
        if view.kappa:
            return events_of(landed(topic), view, late=False, loaded=None if replay else 0)
        delay = topic.allowed_lateness // _MILLISECOND
        if not view.closed_only:
            return events_of(landed(topic), view, late=False).withWatermark("event_time", f"{delay} milliseconds")
        # All records of the log advance the watermark, so the filter must stay after it: a setting of the stream's
        # session sees to that. Rows of files don't. The extra millisecond: Spark drops events at the watermark itself,
        # landing calls them on time.
        logged = landed(topic).where(f"decision <> '{LOADED}'")
        every = logged.withWatermark("event_time", f"{delay + 1} milliseconds")
        return events_of(every, view, late=False)

    return union_topics(topics, with_watermark)


def watermark_of(view: ViewHandle, cut: Cut) -> datetime | None:
    """The watermark of all topics together (the earliest one) at ``cut``; None while a topic has no event yet."""
    watermarks = [
        watermark_at(delta_table(landing_table(view.settings, topic.name)), topic, cut.epoch(topic.name))
        for topic in view.topics.each
    ]
    if None in watermarks:
        return None
    return view_watermark(view.definition, min(time for time in watermarks if time is not None))


def view_watermark(view: View, watermark: datetime) -> datetime:
    """The watermark as ``view`` sees it: Spark's is in whole milliseconds, see ``stream_of_events``."""
    if not view.closed_only:
        return watermark
    return watermark - timedelta(microseconds=watermark.microsecond % 1000) - _MILLISECOND


def _date_ranges(days: Sequence[date]) -> list[tuple[date, date]]:
    """Sorted days as (first, last) of each unbroken run: Spark compares every file with every entry of a list."""
    runs: list[tuple[date, date]] = []
    for day in days:
        if runs and day - runs[-1][1] == timedelta(days=1):
            runs[-1] = (runs[-1][0], day)
        else:
            runs.append((day, day))
    return runs


_MILLISECOND = timedelta(milliseconds=1)
_SOURCE = {"log_partition": "`partition` AS log_partition", "log_offset": "`offset` AS log_offset"}
"""The columns of ENVELOPE that have another name in landing."""


def frames(events: DataFrame, view: View, topics: Sources) -> list[DataFrame]:
    """One DataFrame per event type of ``view``: the ENVELOPE columns and the fields of its newest contract, whatever
    contract version an event was sent with.

    With ``closes`` also the WATERMARK of ``events``, null where they have none. A ``closed_only`` view gets only events
    from before the watermark.
    """
    envelope = [*ENVELOPE, *([WATERMARK] if view.closes else [])]
    columns = [_SOURCE.get(name, name) for name in envelope]
    if view.closes:
        events = events if WATERMARK in events.columns else events.withColumn(WATERMARK, _literal(None))
    if view.closed_only and not events.isStreaming:
        events = events.where(f"event_time < {WATERMARK}")
    result = []
    for event_type in view.events:
        contract = topics.newest(event_type)
        clash = {name for name in contract.fields if name.lower() in envelope}
        if clash:
            raise definition_error("FIELD_CLASH", view, f"{event_type} has fields named {sorted(clash)}")
        rows = events.where(_of_type(event_type, topics))
        result.append(select_newest(rows, columns, topics.carrier(event_type), event_type))
    return result


def _of_type(event_type: str, topics: Sources) -> str:
    carried = f" AND topic = '{topics.carrier(event_type).name}'" if len(topics.each) > 1 else ""
    return f"type = '{event_type}'{carried}"


def _literal(time: datetime | None) -> Column:
    from pyspark.sql import functions as F

    return F.lit(time).cast("timestamp")


def rows_of(view: View, inputs: Sequence[DataFrame]) -> DataFrame:
    """The rows that the author's function returns, with ``partition_date`` added (unless kappa).

    Nothing is filtered: Spark would push a filter by partition into the author's function, which changes session
    windows.
    """
    from pyspark.sql import functions as F

    result = view.function(*inputs)
    missing = [column for column in view.key if column not in result.columns]
    if missing:
        raise definition_error(
            "VIEW_COLUMNS",
            view,
            f"it doesn't return the key columns {', '.join(missing)}",
            next_step=f"it returns {', '.join(result.columns)}",
        )
    reserved = [column for column in result.columns if not is_own(column)]
    if reserved:
        raise definition_error(
            "VIEW_COLUMNS", view, f"columns {', '.join(reserved)} are reserved", next_step="rename them"
        )
    if view.partition_by is None:
        return result
    return result.withColumn(PARTITION_DATE, F.to_date(F.col(view.partition_by)))


def rows_at(
    spark: SparkSession,
    view: ViewHandle,
    cut: Cut,
    partitions: Sequence[date] | None,
    *,
    late: bool,
    loaded: Mapping[str, int] = MappingProxyType({}),
    landing: Mapping[str, str] = MappingProxyType({}),
) -> DataFrame:
    """Runs the function as a batch over ``events_at``. Returns the rows of ``partitions``, and rows of other partitions
    that those events affect."""
    events = events_at(spark, view, cut, partitions, late=late, loaded=loaded, landing=landing)
    inputs = frames(events, view.definition, view.topics)
    with call_sites():
        return rows_of(view.definition, inputs)
