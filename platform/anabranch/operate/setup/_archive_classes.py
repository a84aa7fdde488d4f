"""Writes the classes that a Spark engine or a broker loads into an archive, which later ones map into memory when they
start: ``python -m anabranch.operate.setup._archive_classes spark`` or ``kafka``.

Parsing and verifying these classes is a large part of the CPU time of a short job, and half of a broker's start. An
archive (class data sharing of the JVM, 200 and 50 MB in the folder of the JARs) is valid for one JVM and one class
path; with any other, the JVM starts without it. So it is optional, and safe to delete.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.core.engine.java_options import JAVA_OPTIONS, class_archive
from anabranch.core.engine.spark import session
from anabranch.core.settings import load_settings
from anabranch.operate.runtime.kafka_server import broker_archive, kafka_part

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def main(name: str) -> None:
    """``name``: spark or kafka."""
    settings = load_settings()
    archive, at = {"spark": (_engine, class_archive(settings)), "kafka": (_broker, broker_archive(settings))}[name]
    with tempfile.TemporaryDirectory(prefix="anabranch-archive-") as folder:
        made = archive(Path(folder))
        partial = at.with_suffix(".new")
        partial.write_bytes(made.read_bytes())
        partial.replace(at)


def _engine(home: Path) -> Path:
    """Archive what an engine has loaded at its end."""
    made = home / "engine.jsa"
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
    return made


def _broker(home: Path) -> Path:
    """The same for a broker, once it answers a client."""
    made = home / "broker.jsa"
    with socket.socket() as one, socket.socket() as two:
        for each in (one, two):
            each.bind(("127.0.0.1", 0))
        broker, controller = (each.getsockname()[1] for each in (one, two))
    settings = load_settings(home=home, bootstrap_servers="", kafka_port=broker, kafka_controller_port=controller)
    part = kafka_part(settings)
    part.prepare()
    java, *options = part.command
    command = [java, f"-XX:ArchiveClassesAtExit={made}", *options]
    with subprocess.Popen(command, cwd=home, env=part.env) as process:
        until = time.monotonic() + part.start_timeout
        try:
            while not part.ready(0.0) and process.poll() is None and time.monotonic() < until:
                time.sleep(0.2)
        finally:
            process.send_signal(part.stop_signal)  # it then writes the archive
    return made


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
    main(sys.argv[1])
