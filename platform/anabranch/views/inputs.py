"""From landed rows to what a view's function sees, and from what it returns to rows of a table.

Every runner (speed, batch, certify, replay, tests) goes through these functions, so there is one reading of
"the events of a view" only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from functools import reduce
from typing import TYPE_CHECKING

from deltalake import DeltaTable

from anabranch.contracts import Sources, Topic
from anabranch.core.settings import Settings
from anabranch.ingest.landing.schema import EVENT_DATE, VALID
from anabranch.ingest.landing.watermark import watermark_at
from anabranch.lake import Cut
from anabranch.lake.frames import table_rows
from anabranch.lake.layout import landing_table
from anabranch.views.definition import ENVELOPE, PARTITION_DATE, WATERMARK, View, is_own
from anabranch.views.definition_errors import definition_error
from anabranch.views.upcast_select import select_newest

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


def events_of(landed: DataFrame, view: View, *, late: bool) -> DataFrame:
    """The landed rows that ``view`` is a function of: valid ones of its types; with ``late`` the late ones too."""
    types = ", ".join(f"'{name}'" for name in view.events)  # checked by their contracts: no quote is in them
    on_time = "" if late or view.kappa else " AND NOT late"
    return landed.where(f"decision = '{VALID}' AND type IN ({types}){on_time}")


def prune(events: DataFrame, view: View, partitions: Sequence[date]) -> DataFrame:
    """Only the events that rows of ``partitions`` can need, by event_date, with lookback and lookahead."""
    if view.kappa:
        return events
    days = needed_dates(view, partitions)
    inside = " OR ".join(f"{EVENT_DATE} BETWEEN DATE '{a}' AND DATE '{b}'" for a, b in _spans(days)) or "false"
    if view.tables and days:
        names = ", ".join(f"'{name}'" for name in view.tables)
        inside = f"({inside}) OR (type IN ({names}) AND {EVENT_DATE} <= DATE '{days[-1]}')"
    return events.where(inside)


def _reached(view: View, partitions: Sequence[date] | None) -> Callable[[date | None], bool] | None:
    """The event dates that ``prune`` leaves rows of; None: all."""
    if view.kappa or partitions is None:
        return None
    days = frozenset(needed_dates(view, partitions))
    if view.tables and days:
        last = max(days)
        return lambda day: day is not None and (day in days or day <= last)
    return lambda day: day in days


def needed_dates(view: View, partitions: Sequence[date]) -> list[date]:
    """The event dates whose events rows of ``partitions`` can need."""
    day = timedelta(days=1)
    before, after = -(-view.lookback // day), -(-view.lookahead // day)
    return sorted({p + day * shift for p in partitions for shift in range(-before, after + 1)})


def events_at(
    spark: SparkSession,
    settings: Settings,
    view: View,
    topics: Sources,
    cut: Cut,
    partitions: Sequence[date] | None,
    *,
    late: bool,
    watermark: datetime | None = None,
) -> DataFrame:
    """The landed events up to ``cut`` that rows of ``partitions`` (None: all) can need, with the late ones or not.

    ``watermark``: that of a stream that hasn't come to the cut's own yet, for a view that closes.
    """

    def landed(topic: Topic) -> DataFrame:
        table = DeltaTable(landing_table(settings, topic.name))
        rows = table_rows(spark, table, _reached(view, partitions))
        return events_of(rows, view, late=late).where(f"epoch <= {int(cut.epoch(topic.name))}")

    events = union_topics(topics, landed)
    if view.closes:
        events = events.withColumn(WATERMARK, _literal(watermark or watermark_of(settings, view, topics, cut)))
    return events if partitions is None else prune(events, view, partitions)


def union_topics(topics: Sources, landed: Callable[[Topic], DataFrame]) -> DataFrame:
    """What ``landed`` gives for each topic as one DataFrame: the columns of all, null where a topic has none."""
    from pyspark.sql import functions as F

    if len(topics.each) == 1:
        return landed(topics.each[0])
    # A literal, so that a filter on it leaves out the other topics' tables before they are read.
    each = (landed(topic).withColumn("topic", F.lit(topic.name)) for topic in topics.each)
    return reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), each)


def stream_of_events(view: View, topics: Sources, landed: Callable[[Topic], DataFrame]) -> DataFrame:
    """The on-time events of ``view`` from the streams of its topics, each with the watermark that it was landed by.

    Spark takes the earliest watermark of all sources, so none of them loses an event that landing calls on time.
    """

    def watched(topic: Topic) -> DataFrame:
        if view.kappa:
            return events_of(landed(topic), view, late=False)
        delay = topic.allowed_lateness // _MILLISECOND
        if not view.closed_only:
            return events_of(landed(topic), view, late=False).withWatermark("event_time", f"{delay} milliseconds")
        # All records of the topic move its time: the filter stays behind, by a setting of the stream's session.
        # Spark drops what lies at the watermark itself, which landing calls on time.
        every = landed(topic).withWatermark("event_time", f"{delay + 1} milliseconds")
        return events_of(every, view, late=False)

    return union_topics(topics, watched)


def watermark_of(settings: Settings, view: View, topics: Sources, cut: Cut) -> datetime | None:
    """How far the time of all topics is at ``cut``; None where one of them has no event yet."""
    found = [
        watermark_at(DeltaTable(landing_table(settings, topic.name)), topic, cut.epoch(topic.name))
        for topic in topics.each
    ]
    return None if None in found else seen_by(view, min(time for time in found if time is not None))


def seen_by(view: View, watermark: datetime) -> datetime:
    """The watermark as ``view`` knows it: Spark's own is in whole milliseconds, see ``stream_of_events``."""
    if not view.closed_only:
        return watermark
    return watermark - timedelta(microseconds=watermark.microsecond % 1000) - _MILLISECOND


def _spans(days: Sequence[date]) -> list[tuple[date, date]]:
    """Sorted days as first and last day of each unbroken run: Spark looks at every day of a list for every file."""
    runs: list[tuple[date, date]] = []
    for day in days:
        if runs and day - runs[-1][1] == timedelta(days=1):
            runs[-1] = (runs[-1][0], day)
        else:
            runs.append((day, day))
    return runs


_MILLISECOND = timedelta(milliseconds=1)
_SOURCE = {"log_partition": "`partition` AS log_partition", "log_offset": "`offset` AS log_offset"}
"""The columns of ENVELOPE that landing calls otherwise."""


def frames(events: DataFrame, view: View, topics: Sources) -> list[DataFrame]:
    """One DataFrame per event type of ``view``: the fields of its newest contract beside the ENVELOPE columns, made of
    whatever version an event was sent by.

    With ``closes`` the WATERMARK of ``events`` too, null where they have none; of a view that sees what is closed only,
    no event from behind it.
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
        clash = set(contract.fields) & set(envelope)
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
    """What the author's function returns, with ``partition_date`` added (unless kappa). Nothing is filtered:
    a filter by partition would be pushed through the author's function, which changes session windows."""
    from pyspark.sql import functions as F

    result = view.function(*inputs)
    missing = [column for column in view.key if column not in result.columns]
    if missing:
        raise definition_error(
            "VIEW_COLUMNS",
            view,
            f"it doesn't return {', '.join(missing)} of its key",
            next_step=f"it returns {', '.join(result.columns)}",
        )
    taken = [column for column in result.columns if not is_own(column)]
    if taken:
        raise definition_error(
            "VIEW_COLUMNS", view, f"columns {', '.join(taken)} are the platform's", next_step="rename them"
        )
    if view.partition_by is None:
        return result
    return result.withColumn(PARTITION_DATE, F.to_date(F.col(view.partition_by)))


def rows_at(
    spark: SparkSession,
    settings: Settings,
    view: View,
    topics: Sources,
    cut: Cut,
    partitions: Sequence[date] | None,
    *,
    late: bool,
) -> DataFrame:
    """The function as a batch over ``events_at``: the rows of ``partitions``, and others that their events reach."""
    events = events_at(spark, settings, view, topics, cut, partitions, late=late)
    return rows_of(view, frames(events, view, topics))
