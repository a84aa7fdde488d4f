"""Whether a view's function fails for some landed events: it is run over them, and its rows are thrown away."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from anabranch.errors import AnabranchError, said
from anabranch.events import Sources, Topic
from anabranch.views.definition import WATERMARK, View
from anabranch.views.inputs import events_of, frames, rows_of, together

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_AFTER_ALL = datetime(9999, 1, 1, tzinfo=UTC)


def error_over(
    spark: SparkSession,
    landing: Mapping[str, str],
    view: View,
    topics: Sources,
    chosen: Callable[[Topic], str],
    *,
    late: bool = True,
) -> str | None:
    """The line that says what the function fails with for the ``chosen`` events (SQL over landed rows, by topic) of the
    ``landing`` tables; None when it doesn't."""
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as F

    def landed(topic: Topic) -> DataFrame:
        rows = spark.read.format("delta").load(landing[topic.name])
        return events_of(rows, view, late=late).where(chosen(topic))

    events = together(topics, landed)
    if view.closes:
        events = events.withColumn(WATERMARK, F.lit(_AFTER_ALL))
    try:
        rows_of(view, frames(events, view, topics)).write.format("noop").mode("overwrite").save()
    except AnabranchError:
        raise
    except PySparkException as error:
        return said(error)
    return None
