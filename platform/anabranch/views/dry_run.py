"""Whether a view's function fails for some landed events: it is run over them, and its rows are thrown away."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

from deltalake import DeltaTable

from anabranch.contracts import Sources, Topic
from anabranch.core.errors import AnabranchError, root_cause
from anabranch.lake.frames import table_rows
from anabranch.views.definition import WATERMARK, View
from anabranch.views.inputs import events_of, frames, rows_of, union_topics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_AFTER_ALL = datetime(9999, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Chosen:
    """Some landed events of a topic: SQL over landed rows, and the event dates that they are of."""

    sql: str
    days: frozenset[date]


def first_error(
    spark: SparkSession,
    landing: Mapping[str, str],
    view: View,
    topics: Sources,
    chosen: Callable[[Topic], Chosen],
    *,
    late: bool = True,
) -> str | None:
    """The line that says what the function fails with for the ``chosen`` events of the ``landing`` tables; None when it
    doesn't."""
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as F

    def landed(topic: Topic) -> DataFrame:
        these = chosen(topic)
        rows = table_rows(spark, DeltaTable(landing[topic.name]), these.days.__contains__)
        return events_of(rows, view, late=late).where(these.sql)

    events = union_topics(topics, landed)
    if view.closes:
        events = events.withColumn(WATERMARK, F.lit(_AFTER_ALL))
    try:
        rows_of(view, frames(events, view, topics)).write.format("noop").mode("overwrite").save()
    except AnabranchError:
        raise
    except PySparkException as error:
        return root_cause(error)
    return None
