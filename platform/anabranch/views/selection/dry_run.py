"""Run a view's function over some landed events and discard the rows, to see whether it fails."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

from anabranch.contracts import Topic
from anabranch.contracts.model.topics import Sources
from anabranch.core.engine.call_sites import call_sites
from anabranch.core.errors import AnabranchError, root_cause
from anabranch.lake.frames import table_rows
from anabranch.lake.log.delta_tables import delta_table
from anabranch.views.model.definition import WATERMARK, View
from anabranch.views.selection.inputs import events_of, frames, rows_of, union_topics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_AFTER_ALL = datetime(9999, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class EventSelection:
    """Some landed events of a topic: a SQL condition over landed rows, and the event dates of those rows."""

    sql: str
    days: frozenset[date]


def first_error(
    spark: SparkSession,
    landing: Mapping[str, str],
    view: View,
    topics: Sources,
    selection: Callable[[Topic], EventSelection],
    *,
    late: bool = True,
) -> str | None:
    """Returns the function's error, in one line, for the selected events of the ``landing`` tables; None without
    one."""
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as F

    def landed(topic: Topic) -> DataFrame:
        selected = selection(topic)
        rows = table_rows(spark, delta_table(landing[topic.name]), selected.days.__contains__)
        return events_of(rows, view, late=late).where(selected.sql)

    events = union_topics(topics, landed)
    if view.closes:
        events = events.withColumn(WATERMARK, F.lit(_AFTER_ALL))
    inputs = frames(events, view, topics)
    try:
        with call_sites():
            rows = rows_of(view, inputs)
        rows.write.format("noop").mode("overwrite").save()
    except AnabranchError:
        raise
    except PySparkException as error:
        return root_cause(error)
    return None
