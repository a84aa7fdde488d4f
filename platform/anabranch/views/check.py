"""Check that a view gives equal rows in both paths, from Spark's analysed plan and without data.

The function is applied to empty events as a batch (twice) and to a stream, and the analysed plans are inspected. This
takes about a second per view, once per definition: see ``Registry.register``.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from anabranch.contracts import Topic
from anabranch.contracts.model.declarations import Declarations
from anabranch.contracts.model.topics import Sources
from anabranch.core.engine.call_sites import call_sites
from anabranch.core.errors import AnabranchError
from anabranch.ingest.landing.table.schema import landing_schema
from anabranch.views import _catalyst, _plan_rules
from anabranch.views._collations import loose_collation
from anabranch.views._upcasting import check_upcasters
from anabranch.views.function_source import Source, read
from anabranch.views.model.definition import CHANGED, COLUMN, ENVELOPE, PARTITION_DATE, View, definition_error, is_own
from anabranch.views.registry import sources_of
from anabranch.views.selection.inputs import events_of, frames, rows_of, stream_of_events, union_topics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PARTITIONS = ("timestamp", "date")
_LINE_OF_QUERY = re.compile(r";? line (\d+) pos \d+;?$")


def check(view: View, spark: SparkSession, declarations: Declarations) -> None:
    """Raises BadDefinition with the reason, file and line of the definition and, where known, the line of the call.

    Codes: VIEW_ANALYSIS (Spark can't analyse it), VIEW_FAILS (it raises), VIEW_COLUMNS, VIEW_READS, VIEW_IMPURE,
    VIEW_ORDER, VIEW_FLOAT, VIEW_WATERMARK, VIEW_STREAM (Spark can't stream it), VIEW_EVENTS, VIEW_TOPICS; and those of
    ``check_upcaster`` for the contracts that the view reads. No Spark job runs. Not guaranteed: that the rows of a
    partition need no more events than lookback and lookahead say.
    """
    topics, source = sources_of(view, declarations), read(view.function)
    check_upcasters(spark, topics, view.events)
    events = union_topics(topics, lambda topic: spark.createDataFrame(landing_schema(topic).empty_table()))
    inputs = frames(events_of(events, view, late=False), view, topics)
    rows = apply(view, inputs, source)
    _check_columns(view, rows)
    plan = _catalyst.analysed(rows)
    _plan_rules.check_sources(view, plan, _catalyst.analysed(events))
    _plan_rules.check_expressions(view, source, plan)
    _plan_rules.check_nodes(view, plan)
    if not _plan_rules.python_in(plan) and not plan.sameResult(_catalyst.analysed(apply(view, inputs, source))):
        raise definition_error(
            "VIEW_IMPURE",
            view,
            "two calls with the same events give two different plans",
            next_step="remove clocks, random numbers and whatever else changes between two calls",
        )
    if view.refresh == "partitions":
        return
    stream = _catalyst.analysed(apply(view, _streams(spark, view, topics), source))
    _plan_rules.check_closed(view, stream)
    _plan_rules.check_watermark(view, stream)
    _plan_rules.check_before_1970(view, topics, stream)
    _check_streamable(spark, view, plan, stream)


def check_times(view: View, spark: SparkSession, topics: Sources) -> None:
    """Raises BadDefinition VIEW_WATERMARK if ``view`` can't be for events as old as its ``topics`` allow now. For a
    registered view: ``earliest_year`` isn't part of a contract, so no newer version says that it was changed."""
    if view.kappa or view.refresh == "partitions" or all(topic.earliest_year >= 1970 for topic in topics.each):
        return
    stream = _catalyst.analysed(apply(view, _streams(spark, view, topics), read(view.function)))
    _plan_rules.check_before_1970(view, topics, stream)


def apply(view: View, inputs: Sequence[DataFrame], source: Source) -> DataFrame:
    """Returns the view's rows. Whatever the author's function raises becomes a BadDefinition that names the line."""
    from pyspark.errors import AnalysisException
    from pyspark.sql import DataFrame

    try:
        with call_sites():
            if not isinstance(view.function(*inputs), DataFrame):
                raise definition_error(
                    "VIEW_COLUMNS", view, "it doesn't return a DataFrame", next_step="return the DataFrame"
                )
            return rows_of(view, inputs)
    except AnabranchError:
        raise
    except AnalysisException as error:
        what, line = str(error).splitlines()[0], _line_of_error(error, source)
        if source.sql is not None and (at := _LINE_OF_QUERY.search(what)):
            what, line = what[: at.start()], source.line_in_file(int(at[1]))
        raise definition_error("VIEW_ANALYSIS", view, what, line=line, next_step=_available_columns(inputs)) from None
    except Exception as error:
        what = f"it raised {type(error).__name__}: {error}".splitlines()[0]
        raise definition_error("VIEW_FAILS", view, what, line=_line_of_error(error, source)) from error


def _line_of_error(error: BaseException, source: Source) -> int | None:
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == source.path]
    return lines[-1] if lines else None


def _available_columns(inputs: Sequence[DataFrame]) -> str:
    columns = sorted({c for frame in inputs for c in frame.columns} - set(ENVELOPE))
    return f"the events have: {', '.join([*columns, *ENVELOPE])}"


def _check_columns(view: View, rows: DataFrame) -> None:
    columns = [c for c in rows.columns if c != PARTITION_DATE]
    lowered = [c.lower() for c in columns]
    bad = {c for c in columns if not COLUMN.fullmatch(c) or lowered.count(c.lower()) > 1}
    if bad or not all(map(is_own, lowered)):
        raise definition_error(
            "VIEW_COLUMNS",
            view,
            f"columns named {sorted(bad) or columns}",
            next_step=f"give each column its own plain name; {PARTITION_DATE} and {CHANGED} are reserved",
        )
    types = {f.name: f.dataType.typeName() for f in rows.schema.fields}
    if view.partition_by and types[view.partition_by] not in _PARTITIONS:
        raise definition_error(
            "VIEW_COLUMNS",
            view,
            f"{view.partition_by} is a {types[view.partition_by]}",
            next_step="let partition_by name a timestamp or a date",
        )
    unequal = [c for c in view.key if types[c] in ("map", "variant", "double", "float")]
    unequal += [c for c in view.key if loose_collation(rows.schema[c].dataType.simpleString())]
    if unequal:
        raise definition_error(
            "VIEW_COLUMNS",
            view,
            f"{unequal} can't identify a row",
            next_step="use no floats, no maps and no texts with a collation in the key; lower(x) instead of the latter",
        )


def _streams(spark: SparkSession, view: View, topics: Sources) -> list[DataFrame]:
    """The inputs that the speed layer gives to the function: the same types, over a source that is never started."""
    from pyspark.sql import functions as F
    from pyspark.sql.pandas.types import from_arrow_schema

    def landed(topic: Topic) -> DataFrame:
        columns = [
            F.col("timestamp").alias(f.name) if f.name == "event_time" else F.lit(None).cast(f.dataType).alias(f.name)
            for f in from_arrow_schema(landing_schema(topic)).fields
        ]
        return spark.readStream.format("rate").load().select(columns)

    return frames(stream_of_events(view, topics, landed), view, topics)


def _check_streamable(spark: SparkSession, view: View, batch: Any, stream: Any) -> None:
    """Runs Spark's own check of unsupported operations on both plans; Spark would only run it when they start."""
    from pyspark.errors import AnalysisException

    jvm: Any = spark._jvm
    checker = jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
    try:
        checker.checkForBatch(batch)
        checker.checkForStreaming(stream, jvm.org.apache.spark.sql.streaming.OutputMode.Update())
    except AnalysisException as error:
        what = str(error).splitlines()[0].rstrip(";")
        raise definition_error(
            "VIEW_STREAM",
            view,
            what,
            next_step="declare it with refresh='partitions': the days that new events affect are recomputed",
        ) from None
