"""From landed rows to what a view's function sees, and from what it returns to rows of a table.

Every runner (speed, batch, certify, replay, tests) goes through these functions, so there is one reading of
"the events of a view" only.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING

from deltalake import DeltaTable

from anabranch.events import Topic
from anabranch.landing.schema import PARTITION as EVENT_DATE
from anabranch.landing.schema import VALID
from anabranch.landing.watermark import watermark_at
from anabranch.settings import Settings
from anabranch.tables import Cut
from anabranch.tables.layout import landing_table
from anabranch.views.definition import CHANGED, ENVELOPE, PARTITION, WATERMARK, View
from anabranch.views.refusals import refusal

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
    spans = [f"{EVENT_DATE} BETWEEN DATE '{a}' AND DATE '{b}'" for a, b in _spans(needed_dates(view, partitions))]
    return events.where(" OR ".join(spans) or "false")


def needed_dates(view: View, partitions: Sequence[date]) -> list[date]:
    """The event dates whose events rows of ``partitions`` can need."""
    day = timedelta(days=1)
    before, after = -(-view.lookback // day), -(-view.lookahead // day)
    return sorted({p + day * shift for p in partitions for shift in range(-before, after + 1)})


def events_at(
    spark: SparkSession,
    settings: Settings,
    view: View,
    topic: Topic,
    cut: Cut,
    partitions: Sequence[date] | None,
    *,
    late: bool,
) -> DataFrame:
    """The landed events up to ``cut`` that rows of ``partitions`` (None: all) can need, with the late ones or not."""
    uri, epoch = landing_table(settings, topic.name), int(cut.epoch(topic.name))
    events = events_of(spark.read.format("delta").load(uri), view, late=late).where(f"epoch <= {epoch}")
    if view.closes:
        events = events.withColumn(WATERMARK, _literal(watermark_at(DeltaTable(uri), topic, epoch)))
    return events if partitions is None else prune(events, view, partitions)


def _spans(days: Sequence[date]) -> list[tuple[date, date]]:
    """Sorted days as first and last day of each unbroken run: Spark looks at every day of a list for every file."""
    runs: list[tuple[date, date]] = []
    for day in days:
        if runs and day - runs[-1][1] == timedelta(days=1):
            runs[-1] = (runs[-1][0], day)
        else:
            runs.append((day, day))
    return runs


_SOURCE = {"log_partition": "`partition` AS log_partition", "log_offset": "`offset` AS log_offset"}
"""The columns of ENVELOPE that landing calls otherwise."""


def frames(events: DataFrame, view: View, topic: Topic) -> list[DataFrame]:
    """One DataFrame per event type of ``view``: the fields of its data beside the ENVELOPE columns.

    With ``closes`` the WATERMARK of ``events`` too, null where they have none.
    """
    envelope = [*ENVELOPE, *([WATERMARK] if view.closes else [])]
    columns = [_SOURCE.get(name, name) for name in envelope]
    if view.closes:
        events = events if WATERMARK in events.columns else events.withColumn(WATERMARK, _literal(None))
    result = []
    for event_type in view.events:
        contract = topic.newest(event_type)
        clash = set(contract.fields) & set(envelope)
        if clash:
            raise refusal("FIELD_CLASH", view, f"{event_type} has fields named {sorted(clash)}")
        data = [f"`{contract.column}`.`{name}` AS `{name}`" for name in contract.fields]
        # As SQL text: a call into the JVM for each expression was a tenth of a small rebuild.
        result.append(events.where(f"type = '{event_type}'").selectExpr(*columns, *data))
    return result


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
        raise refusal(
            "VIEW_COLUMNS",
            view,
            f"it doesn't return {', '.join(missing)} of its key",
            next_step=f"it returns {', '.join(result.columns)}",
        )
    if {PARTITION, CHANGED} & set(result.columns):
        raise refusal("VIEW_COLUMNS", view, f"columns {PARTITION} and {CHANGED} are the platform's", next_step="rename")
    if view.partition_by is None:
        return result
    return result.withColumn(PARTITION, F.to_date(F.col(view.partition_by)))


def rows_at(
    spark: SparkSession,
    settings: Settings,
    view: View,
    topic: Topic,
    cut: Cut,
    partitions: Sequence[date] | None,
    *,
    late: bool,
) -> DataFrame:
    """The function as a batch over ``events_at``: the rows of ``partitions``, and others that their events reach."""
    events = events_at(spark, settings, view, topic, cut, partitions, late=late)
    return rows_of(view, frames(events, view, topic))
