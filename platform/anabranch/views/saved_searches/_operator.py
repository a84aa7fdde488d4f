"""The DataFrame operators of saved searches: matching, for use in a view, and checking, for user interfaces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, cast

from anabranch.core.errors import BadInput
from anabranch.views.model.definition import duration
from anabranch.views.saved_searches._conjunctions import parse_search
from anabranch.views.saved_searches._history import TIME, Version, sort_versions
from anabranch.views.saved_searches._index import cached_index
from anabranch.views.saved_searches._intervals import Kind

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType, StructType

POSITION: Final = (TIME, "log_partition", "log_offset")
_STORED, _TASK = "_stored", "_task"
_COLUMNS = {"search": "_search", "expression": "_expression", **{name: f"_{name}" for name in POSITION}}
_FOUND = "search string, search_time timestamp, search_partition int, search_offset bigint"
_KINDS: Mapping[str, Kind] = {
    "byte": "number",
    "short": "number",
    "integer": "number",
    "long": "number",
    "decimal": "number",
    "float": "double",
    "double": "double",
    "timestamp": "timestamp",
    "timestamp_ntz": "timestamp",
    "string": "text",
    "boolean": "boolean",
    "date": "date",
}
_AT_ONCE = 100_000


def matches(
    events: DataFrame,
    searches: DataFrame,
    removed: DataFrame | None = None,
    *,
    on: Sequence[str] | None = None,
    lasts: str | timedelta | None = None,
    tasks: int | None = None,
) -> DataFrame:
    """Returns one row for each event and each saved search that it matches.

    ``searches`` is their history, with the columns ``search`` (the name), ``expression`` (null: removed),
    ``event_time``, ``log_partition`` and ``log_offset``; ``removed`` is a second history, without expressions. An event
    matches the newest version of a search at its event time (ties by the position in the log), if that version isn't
    removed and its expression is true; null is no match. So the rows don't depend on how the log was sliced into
    micro-batches. With ``lasts`` a version is active for that long from its event time: a view by partitions needs it,
    with a ``lookback`` of the same length.

    Expressions are a subset of SQL (see ``_grammar``) over the fields in ``on`` (default: all). An expression that
    can't be parsed, or compares incompatible types, matches nothing: see ``refused``. Expressions are never executed as
    SQL.

    Each row has the columns of its event, and ``search``, ``search_time``, ``search_partition`` and ``search_offset``,
    which identify the version. For views with ``refresh="partitions"``. Every task (``tasks``, default: Spark's number
    of shuffle partitions) holds the whole history of the searches and one Arrow batch of events in memory.
    """
    from pyspark.sql import functions as F

    schema, fields = _schema(events), tuple(fields_of(events.schema, on).items())
    tasks = tasks or int(str(events.sparkSession.conf.get("spark.sql.shuffle.partitions")))
    bound = None if lasts is None else duration(lasts) // timedelta(microseconds=1)
    every_task = F.explode(F.sequence(F.lit(0), F.lit(tasks - 1)))
    stored = _history(searches, removed).select("*", F.lit(True).alias(_STORED), every_task.alias(_TASK))
    routed = events.withColumn(_TASK, F.pmod(F.xxhash64("log_partition", "log_offset"), F.lit(tasks)).cast("int"))

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return _matched(batches, fields, bound, schema.names)

    union = stored.unionByName(routed, allowMissingColumns=True).repartitionById(tasks, _TASK)
    return union.sortWithinPartitions(F.col(_STORED).asc_nulls_last()).mapInArrow(run, schema)


def refused(searches: DataFrame, schema: StructType, *, on: Sequence[str] | None = None) -> DataFrame:
    """Returns the versions of ``searches`` whose expression is invalid, so that they match nothing, with ``why``.

    ``schema`` is the events' schema. Columns: search, expression, event_time, log_partition, log_offset, why.
    """
    from pyspark.sql import functions as F

    fields = fields_of(schema, on)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in batches:
            why = [refusal(text, fields) if text is not None else None for text in batch["expression"].to_pylist()]
            yield batch.append_column("why", pa.array(why, pa.string()))

    rows = searches.select("search", "expression", *POSITION)
    return rows.mapInArrow(run, rows.withColumn("why", F.lit(None).cast("string")).schema).where("why IS NOT NULL")


def refusal(expression: str, fields: Mapping[str, Kind]) -> str | None:
    """The reason why this search would be refused, or None. Call it before a search is saved."""
    try:
        parse_search(expression, fields)
    except BadInput as error:
        return str(error.fields["why"])
    return None


def fields_of(schema: StructType, on: Sequence[str] | None = None) -> dict[str, Kind]:
    """The fields that searches may name. Raises BadInput SEARCH_FIELDS if one of ``on`` is missing or has no order."""
    kinds = {field.name: _kind(field.dataType) for field in schema.fields}
    wrong = [name for name in on or () if not kinds.get(name)]
    if wrong:
        raise BadInput(
            "SEARCH_FIELDS",
            f"searches can't use the fields {', '.join(wrong)}",
            state="nothing was computed",
            next_step=f"use some of: {', '.join(name for name, kind in kinds.items() if kind)}",
            fields=wrong,
        )
    return {name: kind for name, kind in kinds.items() if kind and (on is None or name in on)}


def _kind(type_: DataType) -> Kind | None:
    return _KINDS.get(type_.typeName())


def _schema(events: DataFrame) -> StructType:
    """The schema of the result."""
    from pyspark.sql.types import StructType

    found = cast("StructType", StructType.fromDDL(_FOUND))
    wrong = {*found.names, _STORED, _TASK, *_COLUMNS.values()} & set(events.columns)
    missing = set(POSITION) - set(events.columns)
    if wrong or missing:
        raise BadInput(
            "SEARCH_COLUMNS",
            f"events {f'have columns named {sorted(wrong)}' if wrong else f'lack {sorted(missing)}'}",
            state="nothing was computed",
            next_step=f"rename those columns; events need {', '.join(POSITION)}",
        )
    return StructType([*events.schema.fields, *found.fields])


def _history(searches: DataFrame, removed: DataFrame | None) -> DataFrame:
    from pyspark.sql import functions as F

    columns = [F.col(name).alias(named) for name, named in _COLUMNS.items()]
    saved = searches.select(columns)
    if removed is not None:
        saved = saved.unionByName(removed.withColumn("expression", F.lit(None).cast("string")).select(columns))
    return saved.where("_search IS NOT NULL AND _event_time IS NOT NULL")


def _matched(
    batches: Iterator[pa.RecordBatch], fields: tuple[tuple[str, Kind], ...], lasts: int | None, names: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """The searches come first, then the events: only the searches and one batch of events are in memory."""
    import pyarrow as pa

    stored: list[Version] = []
    index = None
    for batch in batches:
        first = batch.num_rows - batch[_STORED].null_count
        stored += _versions(batch.slice(0, first))
        if first == batch.num_rows or not stored:
            continue
        index = index or cached_index(sort_versions(stored), fields, lasts)
        events = batch.slice(first)
        kept = events.select([name for name in names if name in batch.schema.names])
        for rows, places in index.match(events):
            for begin in range(0, len(rows), _AT_ONCE):
                some = slice(begin, begin + _AT_ONCE)
                versions = [index.versions[place] for place in places[some].tolist()]
                columns = kept.take(pa.array(rows[some])).columns
                yield pa.RecordBatch.from_arrays([*columns, *_version_columns(versions)], names=list(names))


def _versions(batch: pa.RecordBatch) -> list[Version]:
    import pyarrow as pa

    times = batch["_event_time"].view(pa.int64())
    columns: list[Any] = [batch["_search"], times, batch["_log_partition"], batch["_log_offset"], batch["_expression"]]
    return [Version(*row) for row in zip(*(column.to_pylist() for column in columns), strict=True)]


def _version_columns(versions: Sequence[Version]) -> list[pa.Array]:
    import pyarrow as pa

    return [
        pa.array([version.search for version in versions], pa.string()),
        pa.array([version.event_time for version in versions], pa.timestamp("us", "UTC")),
        pa.array([version.log_partition for version in versions], pa.int32()),
        pa.array([version.log_offset for version in versions], pa.int64()),
    ]
