"""Writes the classes that a Spark engine loads into an archive, which later engines map into memory when they start.

Parsing and verifying these classes is a large part of the CPU time of a short job. The archive (class data sharing of
the JVM, some 200 MB in the folder of the JARs) is valid for one JVM and one class path; with any other, the JVM starts
without it. So it is optional, and safe to delete.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.core.engine.spark import JAVA_OPTIONS, class_archive, session
from anabranch.core.settings import load_settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="anabranch-archive-") as folder:
        home = Path(folder)
        made, wanted = home / "classes.jsa", class_archive(load_settings())
        java = f'{JAVA_OPTIONS} "-XX:ArchiveClassesAtExit={made}"'
        settings = load_settings(home=home, spark_conf={"spark.driver.defaultJavaOptions": java})
        spark = session(settings, "anabranch-archive")
        _work(spark, home)
        gateway = spark.sparkContext._gateway
        if gateway is None:
            raise RuntimeError("this process didn't start its own engine")
        spark.stop()
        gateway.shutdown()
        gateway.proc.stdin.close()  # the JVM then exits and writes the archive
        gateway.proc.wait(300)
        partial = wanted.with_suffix(".new")
        partial.write_bytes(made.read_bytes())
        partial.replace(wanted)


def _work(spark: SparkSession, home: Path) -> None:
    """Runs what most engines do: writes and reads a table, aggregates, and runs a stream until it has caught up."""
    from pyspark.sql import functions as F

    def consume(rows: DataFrame, number: int) -> None:
        rows.write.mode("overwrite").parquet(str(home / "rows"))

    events = spark.range(100).select("id", F.timestamp_seconds(F.col("id") * 1000).alias("event_time"))
    days = events.withColumn("day", F.to_date("event_time"))
    days.write.format("delta").partitionBy("day").save(str(home / "events"))
    read = spark.read.format("delta").load(str(home / "events")).where("id > 3")
    read.groupBy(F.window("event_time", "1 hour")).agg(F.count("*").alias("events")).toArrow()
    stream = spark.readStream.format("delta").load(str(home / "events")).withWatermark("event_time", "1 hour")
    counted = stream.groupBy(F.window("event_time", "1 hour")).agg(F.count("*").alias("events"))
    query = counted.writeStream.outputMode("update").foreachBatch(consume).trigger(availableNow=True)
    query.option("checkpointLocation", str(home / "checkpoint")).start().awaitTermination()


if __name__ == "__main__":
    main()
