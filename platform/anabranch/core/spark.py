"""The one place where a Spark session is made, so that every process runs with the same engine settings."""

from __future__ import annotations

import fcntl
import os
import re
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from anabranch.core.engine_check import check_values, refusal
from anabranch.core.errors import BadInput, BrokenState
from anabranch.core.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCRATCH = "tmp"
"""The folder of a home that holds a folder for each engine."""
HOLD = "held"
"""The file in such a folder whose lock says that its engine lives."""
_HELD: dict[Path, int] = {}
"""Open until this process ends."""
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

ENGINE = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # A plain @udf over a Parquet scan hangs for ever otherwise (SPARK-58241).
    "spark.sql.execution.arrow.pythonUDF.columnarInput.enabled": "false",
    "spark.sql.streaming.stateStore.providerClass": _ROCKSDB,
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # Else its indexes and filters stay in memory beside the cache: some ten bits for each key of a horizon of days.
    "spark.sql.streaming.stateStore.rocksdb.boundedMemoryUsage": "true",
    "spark.sql.streaming.stateStore.rocksdb.maxMemoryUsageMB": "500",
    "spark.sql.streaming.numRecentProgressUpdates": "20",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    # Above 8,000 bytes of byte code the JVM never compiles a method, and Spark's default of 65,535 lets it make such:
    # landing's decoding was some three times slower with it (seen on a busy machine; not measured cleanly).
    "spark.sql.codegen.hugeMethodLimit": "8000",
    # Else the files of a table are looked for by a job, where they are more than 32.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000000",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.databricks.delta.retentionDurationCheck.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
LIVE = {
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # How often news are looked for. Each look lists the whole log of the table, 25 us for each file in it: at 50 ms
    # an idle stream took a third of a core behind 1,500 commits.
    "spark.sql.streaming.pollingDelay": "200ms",
}
"""For streams that run on and on: Spark writes the code of each projection anew for every task of every micro-batch,
which for some hundred rows is most of the work. What isn't fused into one stage is interpreted instead: landing
decodes a third as many rows a second then, so a stream that only catches up does without."""
OWN_CODE: Mapping[str, str] = {"spark.python.sql.dataFrameDebugging.enabled": "false"}
"""For a process that builds no author's expressions: Spark notes the Python line of every call otherwise, which is
half of the time that landing's thousand take to build."""
_FEW_CORES = 2
SMALL_EVENTS = 100_000
"""Up to so many events a rebuild with its checks is quicker by ``SMALL`` than with code made for it."""
SMALL: Mapping[str, str] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.pythonUDF.columnarInput.enabled": "false",
}
"""For a session that runs jobs over few rows, or many of them: what Spark does to make large jobs fast (compile each
plan, plan again at run time) is most of the time of such a job."""
# An error in a Python foreachBatch ends in a StackOverflowError that hides it, unless the stack is larger.
_STACK = "-Xss8m"
# The planner's many warm methods keep the optimizing compiler busy for minutes: on 2 cores it took half of the CPU of
# a stream. Twenty times the usual thresholds leave it the inner loops, which come to that in no time.
_COMPILER = (
    "-XX:+IgnoreUnrecognizedVMOptions -XX:Tier4InvocationThreshold=100000 -XX:Tier4MinInvocationThreshold=12000 "
    "-XX:Tier4CompileThreshold=300000 -XX:Tier4BackEdgeThreshold=800000"
)
_COLLECTOR = "-XX:+UseParallelGC"
JAVA_OPTIONS = f"{_STACK} {_COMPILER} {_COLLECTOR} -Dlog4j2.formatMsgNoLookups=true"
# Behind a burst the parallel collector keeps 600 MB for new objects that an idle stream has no use for; this one gives
# them back, and on two cores it collects as fast.
_SMALL_COLLECTOR = "-XX:+UseSerialGC -XX:MinHeapFreeRatio=10 -XX:MaxHeapFreeRatio=30"


def jar_paths(settings: Settings) -> list[Path]:
    """The pinned JARs beside pyspark's own. BrokenState when `make setup` has not resolved them."""
    jars = sorted((settings.jars / "spark").glob("*.jar"))
    if not jars:
        raise BrokenState(
            "JARS_MISSING",
            f"no JARs in {settings.jars / 'spark'}",
            state="nothing was started",
            next_step="anabranch setup",
        )
    return jars


def class_archive(settings: Settings) -> Path:
    """The JVM's archive of the classes that an engine loads; ``operate.setup`` writes it."""
    return settings.jars / "classes.jsa"


def java_options(settings: Settings) -> str:
    """What every engine's JVM is given. An archive that another JVM or class path has made is left aside, silently."""
    archive = class_archive(settings)
    if not archive.exists():
        return JAVA_OPTIONS
    return f'{JAVA_OPTIONS} "-XX:SharedArchiveFile={archive}" -Xlog:cds=off -Xlog:cds+dynamic=off'


def live_engine(settings: Settings) -> dict[str, str]:
    """For the engine of streams that run on and on, where cores are few: they share the machine with all others, and
    its memory, too."""
    if (os.cpu_count() or 1) > _FEW_CORES:
        return {}
    return {"spark.driver.defaultJavaOptions": java_options(settings).replace(_COLLECTOR, _SMALL_COLLECTOR)}


def scratch(settings: Settings) -> Path:
    """Where this process' engine puts what it can't hold in memory. Several machines or containers may share a home,
    and in each of them processes are numbered from 1: so its name is the host's and the process'."""
    host = re.sub(r"[^A-Za-z0-9.-]", "-", socket.gethostname())
    return settings.home / SCRATCH / f"{host}-{os.getpid()}"


def hold_scratch(settings: Settings) -> Path:
    """Make that folder, and hold it as long as this process lives. An engine that is killed leaves it, with a lock that
    nobody holds: that is how others know, wherever they run (``operate.maintenance.orphans``)."""
    folder = scratch(settings)
    path = folder / HOLD
    while folder not in _HELD:
        folder.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):  # who was here before is just being taken away
            held = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
            fcntl.flock(held, fcntl.LOCK_EX)
            if path.exists() and path.stat().st_ino == os.fstat(held).st_ino:
                _HELD[folder] = held
            else:
                os.close(held)
    return folder


def scratch_conf(settings: Settings) -> dict[str, str]:
    """What is another one in each process. The JVM unpacks native libraries there, too (14 MB of RocksDB's alone): an
    engine that is killed would leave them in the machine's ``/tmp`` for ever. What the settings say goes first."""
    folder, given = str(scratch(settings)), settings.spark_conf
    java = f'"-Djava.io.tmpdir={folder}" {given.get("spark.driver.extraJavaOptions", "")}'.rstrip()
    return {"spark.local.dir": given.get("spark.local.dir", folder), "spark.driver.extraJavaOptions": java}


def engine_conf(settings: Settings) -> dict[str, str]:
    """Every Spark setting of this platform; also what a job submitted by Airflow is given."""
    return {
        **ENGINE,
        "spark.jars": ",".join(str(jar) for jar in jar_paths(settings)),
        "spark.driver.memory": settings.spark_driver_memory,
        "spark.driver.defaultJavaOptions": java_options(settings),
        "spark.sql.shuffle.partitions": str(settings.shuffle_partitions),
        "spark.sql.warehouse.dir": str(settings.home / "warehouse"),
        **settings.spark_conf,
        **scratch_conf(settings),
    }


def session(settings: Settings, app: str, more: Mapping[str, str] = MappingProxyType({})) -> SparkSession:
    """The session of this process, with ``more`` settings, but what a user has set goes first: made at the first call,
    the same one afterwards.

    BadInput ENGINE_SETTING names a setting that Spark can't take; BrokenState ENGINE_NOT_STARTED."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # Workers of Python functions run `python3` otherwise, whichever that is, without our libraries.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if known := settings.kafka_password.get_secret_value():  # Kafka's client in the JVM reads it there
        os.environ["ANABRANCH_KAFKA_PASSWORD"] = known
    builder = SparkSession.builder.appName(app)
    if "SPARK_ENV_LOADED" not in os.environ:  # spark-submit has chosen the master already
        builder = builder.master(settings.spark_master)
    hold_scratch(settings)
    for key, value in {**engine_conf(settings), **more, **settings.spark_conf, **scratch_conf(settings)}.items():
        builder = builder.config(key, value)
    try:
        spark = builder.getOrCreate()
    except (Py4JError, PySparkException) as error:
        raise refusal(error, settings.spark_conf) or error from error
    spark.sparkContext.setLogLevel("ERROR")
    try:
        check_values(spark, settings.spark_conf)
    except (BadInput, PySparkException) as error:  # some values are looked at when the first session is needed
        spark.stop()
        raise refusal(error, settings.spark_conf) or error from error
    return spark


def small(spark: SparkSession, more: Mapping[str, str] | None = None) -> SparkSession:
    """A session beside ``spark``, set for small jobs."""
    own = spark.newSession()
    for key, value in {**SMALL, **(more or {})}.items():
        own.conf.set(key, value)
    return own
