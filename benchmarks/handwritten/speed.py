"""Hourly departure delays as a stream over the landing table: window aggregate, foreachBatch, MERGE into Delta."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from benchmarks.handwritten.batch import hourly

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


def start(spark: SparkSession, landing: str, target: str, checkpoint: Path) -> StreamingQuery:
    """Bring ``target`` up to date with everything that is landed now. Session settings as the platform's streams."""
    own = spark.newSession()
    own.conf.set("spark.sql.adaptive.enabled", "false")
    # Without it the table's snapshot comes in slices, in the order of files: the watermark would drop rows.
    landed = own.readStream.format("delta").option("maxFilesPerTrigger", 2**31 - 1).load(landing)
    departures = landed.where(
        (F.col("decision") == "valid") & (F.col("type") == "flight.departed") & ~F.col("late")
    ).withWatermark("event_time", "2 hours")
    return (
        hourly(departures)
        .writeStream.outputMode("update")
        .foreachBatch(lambda rows, batch: write(rows, batch, target))
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )


def write(rows: DataFrame, batch: int, target: str) -> None:
    """The first micro-batch makes the table, each later one is merged by key."""
    if batch == 0:
        # One file a day instead of one for each task and day.
        rows.repartition("day").write.format("delta").mode("overwrite").partitionBy("day").save(target)
        return
    from delta.tables import DeltaTable

    rows.persist()
    days = [row.day for row in rows.select("day").distinct().collect()]
    same = "target.origin = source.origin and target.window_start = source.window_start"
    listed = ", ".join(f"date'{day}'" for day in days)
    table = DeltaTable.forPath(rows.sparkSession, target).alias("target")
    merge = table.merge(rows.alias("source"), f"target.day in ({listed}) and {same}")
    merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    rows.unpersist()
