"""Checks landing's columns against the raw bytes, by decoding them again with landing's own decoder. Needs Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

from anabranch.contracts import CloudEvents, Contract, Topic
from anabranch.contracts.model.records import Records
from anabranch.ingest.landing.table.schema import ADDED, DUPLICATE, EVENT_DATE, EVENTS, RECORD, TOMBSTONE, VALID
from anabranch.ingest.schema_registry import with_schemas
from anabranch.operate.doctor._commits import how_to_rebuild
from anabranch.operate.doctor._context import Context, TableState, each
from anabranch.operate.doctor._findings import Check, Finding

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType

_ENVELOPE = (
    "type", "subject", "event_id", "source", "contract_version", "device_time", "senttime", "receivedtime",
    "event_time", EVENT_DATE,
)  # fmt: skip
_ANY_TIME = {"earliest_year": 1, "future_bound": timedelta(days=36_500)}
"""A topic's time bounds may have been different when a record landed, so they are not checked again."""


def decode_check(spark: SparkSession) -> Check:
    """Returns a check of every row of landing. It takes as long as landing took to decode them."""

    @each("landing")
    def records(context: Context, state: TableState) -> Iterator[Finding]:
        """RECORD_DIFFERS: a row's envelope, times or typed columns differ from what its bytes give by the contract
        version that it landed with; or it has values although its bytes can't be read or it is in quarantine. Whether
        today's contracts can read a quarantined record is for `quarantine release` to decide."""
        topic, files = context.declarations.topics.get(state.place.name), state.readable()
        if topic is None or not files:
            return
        topic = with_schemas(context.settings, topic)
        rows = _table(spark, state, topic)
        each_version = [(t, rank) for t in topic.event_types for rank in range(len(topic.versions(t)))]
        found = [row for t, rank in each_version for row in _first(_differing(rows, topic, t, rank))]
        found += _first(_unread(rows, topic))
        if found:
            first = min(found, key=lambda row: (row["partition"], row["offset"], row["epoch"]))
            count = sum(row["count"] for row in found)
            where = f"{state.place}, partition {first['partition']}, offset {first['offset']}, epoch {first['epoch']}"
            what = f"{count} rows differ from their bytes, this one in {', '.join(first['columns'])}"
            yield Finding("RECORD_DIFFERS", where, what, how_to_rebuild(state.place))

    return Check("landing decoded again", records)


def _table(spark: SparkSession, state: TableState, topic: Topic) -> DataFrame:
    """The rows at the checked version, with every column of today's contracts."""
    from pyspark.sql import functions as F

    from anabranch.ingest.landing.table.schema import spark_ddl

    kept = spark.read.format("delta").option("versionAsOf", state.table.version()).load(state.place.uri)
    types = {topic.newest(t).column: spark_ddl(topic.shape(t)) for t in topic.event_types} | ADDED
    lacking = [F.lit(None).cast(ddl).alias(name) for name, ddl in types.items() if name not in kept.columns]
    return kept.select("*", *lacking)


def _at(topic: Topic, event_type: str, rank: int) -> Topic:
    """The topic as it was for an event of this type and version: without other types, and without newer versions, which
    an event that names no version would be read by."""
    kept = topic.versions(event_type)[: rank + 1]
    upcasters = tuple(u for u in topic.upcasters if u.event_type == event_type and u.version < kept[-1].version)
    bounds: dict[str, Any] = _ANY_TIME
    return replace(topic, contracts=kept, upcasters=upcasters, records=_of_type(topic.records, kept), **bounds)


def _of_type(records: Records, kept: Sequence[Contract]) -> Records:
    """How the records are read, without what names other types and versions."""
    (name,), versions = {contract.name for contract in kept}, {contract.version for contract in kept}
    if isinstance(records, CloudEvents):
        types = {sent: own for sent, own in records.types.items() if own == name}
        if isinstance(records.schemas, str):
            return replace(records, types=types)
        return replace(records, types=types, schemas={s: n for s, n in records.schemas.items() if n in versions})
    if records.type is None:
        return records
    names = {sent: own for sent, own in records.type.names.items() if own == name}
    return replace(records, type=replace(records.type, names=names))


def _differing(rows: DataFrame, topic: Topic, event_type: str, rank: int) -> DataFrame:
    """The rows of one event type and contract version, with the columns in which they differ."""
    from pyspark.sql import functions as F

    from anabranch.ingest.landing.decoding import decode
    from anabranch.ingest.landing.table.schema_projection import project

    at = _at(topic, event_type, rank)
    contract = at.newest(event_type)
    mine = (F.col("type") == event_type) & (F.col("contract_version") == contract.version)
    stored = [name for name in rows.columns if name not in RECORD]
    # ``decode`` doesn't read the topic's name and passes it on, so the stored columns travel in it.
    carried = F.struct(*(F.col(name) for name in stored))
    again = decode(rows.where(mine & F.col("decision").isin(*EVENTS)).withColumn("topic", carried), at)
    expected = {name: F.col(name) for name in _ENVELOPE}
    kinds = {field.name: field.dataType for field in rows.schema.fields}
    others = (topic.newest(t).column for t in topic.event_types if t != event_type)
    expected |= {name: F.lit(None).cast(kinds[name]) for name in others}
    expected[contract.column] = project(F.col(contract.column), at.shape(event_type), topic.shape(event_type))
    differs = [_unlike(F.col(f"topic.{name}"), value, name, kinds[name]) for name, value in expected.items()]
    differs.append(F.when(F.col("decision") != VALID, F.lit("decision")))
    return again.select("partition", "offset", "topic.epoch", F.array_compact(F.array(*differs)).alias("columns"))


def _unread(rows: DataFrame, topic: Topic) -> DataFrame:
    """Rows that aren't valid must have no values, except that a duplicate keeps the event's id and source. Valid rows
    must name a known contract version, a tombstone has a key and no bytes."""
    from pyspark.sql import functions as F

    from anabranch.ingest.landing.decoding import identity

    decision, unread = F.col("decision"), F.coalesce(~F.col("decision").isin(*EVENTS), F.lit(True))
    known = [(F.col("type") == c.name) & (F.col("contract_version") == c.version) for c in topic.contracts]
    names = identity(topic)
    values = [*(n for n in _ENVELOPE[2:] if n != EVENT_DATE), *(topic.newest(t).column for t in topic.event_types)]
    kinds = {field.name: field.dataType for field in rows.schema.fields}
    nothing = {name: F.lit(None).cast(kinds[name]) for name in values}
    expected = nothing | {name: F.when(decision == DUPLICATE, known) for name, known in names.items()}
    there = [F.when(unread, _unlike(F.col(name), value, name, kinds[name])) for name, value in expected.items()]
    by_nobody = F.when(~unread & ~F.coalesce(reduce(or_, known), F.lit(False)), F.lit("contract_version"))
    a_record = F.when((decision == TOMBSTONE) & (F.col("value").isNotNull() | F.col("key").isNull()), F.lit("decision"))
    differs = F.array_compact(F.array(*there, by_nobody, a_record)).alias("columns")
    return rows.select("partition", "offset", "epoch", differs)


def _unlike(stored: Column, value: Column, name: str, kind: DataType) -> Column:
    from pyspark.sql import functions as F

    from anabranch.ingest.landing.table.schema_projection import comparable

    return F.when(~comparable(stored, kind).eqNullSafe(comparable(value, kind)), F.lit(name))


def _first(rows: DataFrame) -> list[dict[str, Any]]:
    """Groups the differing rows by their columns: the first row and the count of each group."""
    from pyspark.sql import functions as F

    first = F.min(F.struct("partition", "offset", "epoch")).alias("first")
    found = rows.where(F.size("columns") > 0).groupBy("columns").agg(first, F.count("*").alias("count")).collect()
    return [{**row["first"].asDict(), "columns": row["columns"], "count": row["count"]} for row in found]
