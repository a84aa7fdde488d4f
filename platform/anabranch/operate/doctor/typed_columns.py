"""Whether the columns of landing are what the bytes beside them say: decoded anew, by landing's own decoder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

from anabranch.contracts import Topic
from anabranch.ingest.landing.schema import DUPLICATE, EVENT_DATE, VALID
from anabranch.operate.doctor.commits import rebuilt
from anabranch.operate.doctor.context import Context, TableState, each
from anabranch.operate.doctor.findings import Check, Finding

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_COORDINATES = ("topic", "partition", "offset", "append_time", "key", "value")
_ENVELOPE = (
    "type", "subject", "event_id", "source", "contract_version", "device_time", "senttime", "receivedtime",
    "event_time", EVENT_DATE,
)  # fmt: skip
_ANY_TIME = {"earliest_year": 1, "future_bound": timedelta(days=36_500)}
"""A topic's bounds may have been others when a record landed: what they let in then is not judged again."""


def decoded(spark: SparkSession) -> Check:
    """Every row of landing, whole tables: as long as landing itself takes to decode them."""

    @each("landing")
    def records(platform: Context, held: TableState) -> Iterator[Finding]:
        """RECORD_DIFFERS: a row's envelope, times or typed columns are others than its bytes give by the version of the
        contract that it was landed by; or they are there, and the bytes can't be read; or it is in quarantine with
        values. Whether today's contracts would read what is in quarantine is for `quarantine release` to say."""
        topic, files = platform.declarations.topics.get(held.place.name), held.readable()
        if topic is None or not files:
            return
        rows = _table(spark, held, topic)
        each_version = [(t, rank) for t in topic.event_types for rank in range(len(topic.versions(t)))]
        found = [row for t, rank in each_version for row in _first(_differing(rows, topic, t, rank))]
        found += _first(_unread(rows, topic))
        if found:
            first = min(found, key=lambda row: (row["partition"], row["offset"], row["epoch"]))
            count = sum(row["count"] for row in found)
            where = f"{held.place}, partition {first['partition']}, offset {first['offset']}, epoch {first['epoch']}"
            what = f"{count} rows say other than their bytes, this one in {', '.join(first['columns'])}"
            yield Finding("RECORD_DIFFERS", where, what, rebuilt(held.place))

    return Check("landing decoded anew", records)


def _table(spark: SparkSession, held: TableState, topic: Topic) -> DataFrame:
    """The rows at the version that is looked at, with each column that the contracts of today have."""
    from anabranch.ingest.landing.schema import spark_ddl
    from pyspark.sql import functions as F

    kept = spark.read.format("delta").option("versionAsOf", held.table.version()).load(held.place.uri)
    nodes = {topic.newest(t).column: topic.shape(t) for t in topic.event_types}
    lacking = [
        F.lit(None).cast(spark_ddl(node)).alias(name) for name, node in nodes.items() if name not in kept.columns
    ]
    return kept.select("*", *lacking)


def _at(topic: Topic, event_type: str, rank: int) -> Topic:
    """The topic as an event of this type and version saw it: without newer versions, which one that names none would
    follow, and without other types."""
    kept = topic.versions(event_type)[: rank + 1]
    upcasters = tuple(u for u in topic.upcasters if u.event_type == event_type and u.version < kept[-1].version)
    bounds: dict[str, Any] = _ANY_TIME
    return replace(topic, contracts=kept, upcasters=upcasters, **bounds)


def _differing(rows: DataFrame, topic: Topic, event_type: str, rank: int) -> DataFrame:
    """The rows that were landed by a version of a type, with the columns in which they differ."""
    from anabranch.ingest.landing.decode import decode
    from anabranch.ingest.landing.schema_projection import project
    from pyspark.sql import functions as F

    at = _at(topic, event_type, rank)
    contract = at.newest(event_type)
    mine = (F.col("type") == event_type) & (F.col("contract_version") == contract.version)
    stored = [name for name in rows.columns if name not in _COORDINATES]
    # ``decode`` looks at the value and hands the key on: so does what was stored.
    carried = F.struct("key", *(F.col(name) for name in stored)).alias("key")
    again = decode(rows.where(mine & (F.col("decision") == VALID)).withColumn("key", carried), at)
    expected = {name: F.col(name) for name in _ENVELOPE}
    expected |= {topic.newest(t).column: F.lit(None) for t in topic.event_types if t != event_type}
    expected[contract.column] = project(F.col(contract.column), at.shape(event_type), topic.shape(event_type))
    differs = [_unlike(F.col(f"key.{name}"), value, name) for name, value in expected.items()]
    differs.append(F.when(F.col("decision") != VALID, F.lit("decision")))
    return again.select("partition", "offset", "key.epoch", F.array_compact(F.array(*differs)).alias("columns"))


def _unread(rows: DataFrame, topic: Topic) -> DataFrame:
    """What no contract has read: it has no values, but that a duplicate keeps the event's name. Valid rows are none of
    these."""
    from pyspark.sql import functions as F

    decision, unread = F.col("decision"), F.coalesce(F.col("decision") != VALID, F.lit(True))
    known = [(F.col("type") == c.name) & (F.col("contract_version") == c.version) for c in topic.contracts]
    event = F.from_json(F.col("value").cast("string"), "id string, source string")
    names = {"event_id": event["id"], "source": event["source"]}
    values = [*(n for n in _ENVELOPE[2:] if n != EVENT_DATE), *(topic.newest(t).column for t in topic.event_types)]
    expected = {name: F.when(decision == DUPLICATE, names[name]) if name in names else F.lit(None) for name in values}
    there = [F.when(unread, _unlike(F.col(name), value, name)) for name, value in expected.items()]
    by_nobody = F.when(~unread & ~F.coalesce(reduce(or_, known), F.lit(False)), F.lit("contract_version"))
    return rows.select("partition", "offset", "epoch", F.array_compact(F.array(*there, by_nobody)).alias("columns"))


def _unlike(stored: Column, value: Column, name: str) -> Column:
    from pyspark.sql import functions as F

    return F.when(~stored.eqNullSafe(value), F.lit(name))


def _first(rows: DataFrame) -> list[dict[str, Any]]:
    """Of the rows that differ in anything: by what they differ in, the first of them and how many there are."""
    from pyspark.sql import functions as F

    first = F.min(F.struct("partition", "offset", "epoch")).alias("first")
    found = rows.where(F.size("columns") > 0).groupBy("columns").agg(first, F.count("*").alias("count")).collect()
    return [{**row["first"].asDict(), "columns": row["columns"], "count": row["count"]} for row in found]
