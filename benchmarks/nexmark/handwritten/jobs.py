"""What runs a query: one batch job, or one stream that catches up, from the landing table into a Delta table."""

from __future__ import annotations

from datetime import date, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.handwritten import tables
from benchmarks.nexmark.handwritten.queries import Query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


def batch(spark: SparkSession, query: Query, landing: str, target: str) -> None:
    """Compute everything, late events too, and replace the table."""
    rows = _answer(spark, query, spark.read.format("delta").load(landing))
    tables.replace(rows, query.day, target)


def start(spark: SparkSession, query: Query, landing: str, target: str, checkpoint: Path) -> StreamingQuery:
    """Bring ``target`` up to date with all that is landed now. Session settings as the platform's streams."""
    own = spark.newSession()
    own.conf.set("spark.sql.adaptive.enabled", "false")
    # Without it the table's snapshot comes in slices, in the order of files: the watermark would drop rows.
    landed = own.readStream.format("delta").option("maxFilesPerTrigger", 2**31 - 1).load(landing)
    if query.day is not None:
        landed = landed.where("NOT late")
    if query.streams:
        events = landed if query.day is None else landed.withWatermark("event_time", "2 hours")
        rows, write = _answer(own, query, events), partial(_merge, query, target)
    else:
        rows, write = landed.select("event_date"), partial(_again, query, landing, target)
    writer = rows.writeStream.outputMode("update").foreachBatch(write)
    return writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()


def _answer(spark: SparkSession, query: Query, landed: DataFrame) -> DataFrame:
    """The query over ``landed``."""
    for kind in ("person", "auction", "bid"):
        events = landed.where(f"decision = 'valid' AND type = 'nexmark.{kind}'")
        columns = ("event_time AS date_time", "event_id", "partition AS p", "offset AS o", f"nexmark_{kind}.*")
        events.selectExpr(*columns).createOrReplaceTempView(kind)
    return spark.sql(query.sql)


def _merge(query: Query, target: str, rows: DataFrame, number: int) -> None:
    tables.merge(rows, number, query.day, query.key, target)


def _again(query: Query, landing: str, target: str, rows: DataFrame, number: int) -> None:
    """Compute the days again that the micro-batch touches; in the first one that is all of them."""
    spark = rows.sparkSession
    landed = spark.read.format("delta").load(landing).where("NOT late")
    if number == 0:
        tables.replace(_answer(spark, query, landed), query.day, target)
        return
    new = [row.event_date for row in rows.select("event_date").distinct().collect()]
    touched = _with_neighbours(new, query.around)
    events = landed.where(_among(_with_neighbours(touched, query.around), "event_date"))
    # Kept before it is filtered: Spark would push the filter below session windows and get other sessions.
    answer = _answer(spark, query, events).persist()
    try:
        days = _among(touched, tables.DAY)
        tables.replace(tables.with_day(answer, query.day).where(days), query.day, target, days)
    finally:
        answer.unpersist()


def _with_neighbours(days: list[date], around: int) -> list[date]:
    return sorted({day + timedelta(days=n) for day in days for n in range(-around, around + 1)})


def _among(days: list[date], column: str) -> str:
    listed = ", ".join(f"DATE '{day}'" for day in days)
    return f"{column} IN ({listed})"
