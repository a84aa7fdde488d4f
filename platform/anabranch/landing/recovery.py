"""What landing does when its checkpoint knows less than its table: look ids up in the table, once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from deltalake import DeltaTable

from anabranch.events import Topic
from anabranch.landing.schema import DUPLICATE, VALID

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def beyond(rows: DataFrame, offsets: Mapping[int, int]) -> DataFrame:
    """Only the records that were not landed yet."""
    from pyspark.sql import functions as F

    new = F.lit(False)
    for partition, landed_to in offsets.items():
        new = new | ((F.col("partition") == partition) & (F.col("offset") >= landed_to))
    return rows.where(new | ~F.col("partition").isin(*offsets))


def known_ids(spark: SparkSession, table: DeltaTable, topic: Topic, *, released_only: bool) -> DataFrame:
    """(source, event_id) of valid records in the table, within the duplicate horizon of its newest append time."""
    from pyspark.sql import functions as F

    landed = spark.read.format("delta").option("versionAsOf", table.version()).load(table.table_uri)
    valid = landed.where(F.col("decision") == VALID)
    if released_only:
        return valid.where(F.col("released_from").isNotNull()).select("source", "event_id").distinct()
    newest = valid.agg(F.max(F.unix_micros("append_time"))).first()
    horizon = int(topic.duplicate_horizon.total_seconds() * 1_000_000)
    oldest = (newest[0] if newest and newest[0] is not None else 0) - horizon
    return valid.where(F.unix_micros("append_time") >= oldest).select("source", "event_id").distinct()


def mark_known(rows: DataFrame, ids: DataFrame) -> DataFrame:
    """Valid rows whose id is among ``ids`` become duplicates: bytes and id stay, typed columns become null."""
    from pyspark.sql import functions as F

    known = ids.select("source", "event_id", F.lit(True).alias("_known"))
    joined = rows.join(F.broadcast(known), ["source", "event_id"], "left")
    repeat = F.col("_known").isNotNull() & (F.col("decision") == VALID)
    kept = {"topic", "partition", "offset", "append_time", "key", "value", "type", "subject", "source", "event_id"}
    columns = [
        F.col(name)
        if name in kept
        else F.when(repeat, F.lit(DUPLICATE)).otherwise(F.col(name)).alias(name)
        if name == "decision"
        else F.when(~repeat, F.col(name)).alias(name)
        for name in rows.columns
    ]
    return joined.select(*columns)


def rescue(
    spark: SparkSession,
    table: DeltaTable,
    topic: Topic,
    records: list[dict[str, Any]],
    beside: Sequence[tuple[str, str]] = (),
) -> DataFrame:
    """Decide on records that the duplicate operator dropped for their age, not for their id.

    ``beside`` are the (source, id) of valid records in the same micro-batch, which the table doesn't hold yet.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    from anabranch.landing.decode import decode

    decided = decode(raw_frame(spark, topic, records), topic)
    order = Window.partitionBy("source", "event_id").orderBy("append_time", "partition", "offset")
    later = (F.col("decision") == VALID) & (F.row_number().over(order) > 1)
    columns = [c for c in decided.columns if c != "_later"]
    numbered = decided.withColumn("_later", later)
    first = numbered.where(~F.col("_later")).select(*columns)
    again = numbered.where(F.col("_later")).select(*columns)
    every = spark.read.format("delta").option("versionAsOf", table.version()).load(table.table_uri)
    ids = every.where(F.col("decision") == VALID).select("source", "event_id")
    if beside:
        ids = ids.unionByName(spark.createDataFrame(list(beside), "source string, event_id string"))
    return mark_known(first, ids.distinct()).unionByName(_all_known(again))


def repeats(spark: SparkSession, topic: Topic, records: list[dict[str, Any]]) -> DataFrame:
    """Records that the duplicate operator dropped for their id: each of them is a duplicate."""
    from anabranch.landing.decode import decode

    return _all_known(decode(raw_frame(spark, topic, records), topic))


def _all_known(decided: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    return mark_known(decided, decided.where(F.col("event_id").isNotNull()).select("source", "event_id").distinct())


def raw_frame(spark: SparkSession, topic: Topic, records: list[dict[str, Any]]) -> DataFrame:
    """Records as the log's source gives them; ``append_time`` of each is in microseconds."""
    from pyspark.sql import functions as F

    rows = [(topic.name, r["partition"], r["offset"], r["append_time"], r["key"], r["value"]) for r in records]
    columns = "topic string, partition int, offset bigint, append_us bigint, key binary, value binary"
    timed = spark.createDataFrame(rows, columns).withColumn("append_time", F.timestamp_micros("append_us"))
    return timed.select("topic", "partition", "offset", "append_time", "key", "value")
