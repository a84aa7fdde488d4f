"""Creates the Spark session, so that every process runs with the same engine settings."""

from __future__ import annotations

import os
import re
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from anabranch.core.atomic_files import held_for_good
from anabranch.core.engine._java_classes import keep_java_classes
from anabranch.core.engine._settings_check import check_values, refusal
from anabranch.core.engine.java_options import AVRO_LIMITS, java_options, short_engine
from anabranch.core.errors import BadInput, BrokenState
from anabranch.core.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCRATCH = "tmp"
"""The folder of a home that holds a scratch folder for each engine."""
HOLD = "held"
"""The lock file in a scratch folder; the lock is held while its engine lives."""
_HELD: dict[Path, int] = {}
"""File descriptors of held locks; open until this process ends."""
FOLDER_DELETED: Final = 60.0
"""Seconds to wait while the folder of an earlier process with this name is deleted; the next try has another name."""
_STREAMING = "org.apache.spark.sql.execution.streaming"
_CHECKPOINT_FILES = f"{_STREAMING}.checkpointing.FileSystemBasedCheckpointFileManager"
_ROCKSDB = f"{_STREAMING}.state.RocksDBStateStoreProvider"

ENGINE = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Otherwise a plain @udf over a Parquet scan hangs for ever (SPARK-58241).
    "spark.sql.execution.arrow.pythonUDF.columnarInput.enabled": "false",
    "spark.sql.streaming.stateStore.providerClass": _ROCKSDB,
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # Otherwise RocksDB keeps indexes and filters outside of its cache: about ten bits per key of a horizon of days.
    "spark.sql.streaming.stateStore.rocksdb.boundedMemoryUsage": "true",
    "spark.sql.streaming.stateStore.rocksdb.maxMemoryUsageMB": "500",
    "spark.sql.streaming.numRecentProgressUpdates": "20",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    # Spark's default for local files starts the program `readlink` eight times for each file of a checkpoint.
    "spark.sql.streaming.checkpointFileManagerClass": _CHECKPOINT_FILES,
    # The JVM never compiles a method with more than 8,000 bytes of byte code, but Spark's default (65,535) generates
    # such methods: landing's decoding was about three times slower (seen on a busy machine; not measured cleanly).
    "spark.sql.codegen.hugeMethodLimit": "8000",
    # An engine that runs a few views keeps more than the 100 of Spark's default, which it would compile over and over.
    "spark.sql.codegen.cache.maxEntries": "1000",
    # Otherwise Spark starts a job to list a table's files if there are more than 32.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000000",
    # Otherwise each call of a function of pyspark records its Python line, which makes it three to four times as slow
    # (landing's decoding is a thousand calls). Authors' functions are called in ``call_sites``.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # A table's state is rebuilt, and sorted for a new stream, in one task each: of 30,000 files as quickly as in two,
    # of a few in fewer jobs, which are a quarter of a short stream.
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.databricks.delta.retentionDurationCheck.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
_NEEDED = {name: ENGINE[name] for name in ("spark.sql.extensions", "spark.sql.session.timeZone")}
"""What a session of somebody else must have, too."""
LIVE = {
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # How often a stream polls for new data. Each poll lists the log of each table that it reads.
    "spark.sql.streaming.pollingDelay": "200ms",
}
"""For long-running streams: Spark generates the code of each projection again for every task of every micro-batch,
which is most of the work for some hundred rows. With this, what isn't fused into one stage is interpreted: landing then
decodes a third as many rows a second, so a stream that only catches up runs without it."""
SMALL_EVENTS = 100_000
"""Up to this many events a rebuild with its checks is faster with ``SMALL`` than with generated code."""
SMALL: Mapping[str, str] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.pythonUDF.columnarInput.enabled": "false",
}
"""For a session with small jobs, or many of them: what Spark does to make large jobs fast (compile each plan, adapt it
at run time) takes most of the time of such a job."""


def engine_for(settings: Settings, events: int | None) -> dict[str, str]:
    """More settings of an engine that is started for one job over so many events (None: unknown): few are faster
    without what Spark and the JVM do to make large jobs fast."""
    return {**SMALL, **short_engine(settings)} if is_few(events) else {}


def is_few(events: int | None) -> bool:
    """Whether a job over so many events is a small one (None: unknown)."""
    return events is not None and events <= SMALL_EVENTS


def jar_paths(settings: Settings) -> list[Path]:
    """The pinned JARs besides pyspark's own. Raises BrokenState if `anabranch setup` has not downloaded them."""
    jars = sorted((settings.jars / "spark").glob("*.jar"))
    if not jars:
        raise BrokenState(
            "JARS_MISSING",
            f"no JARs in {settings.jars / 'spark'}",
            state="nothing was started",
            next_step="anabranch setup",
        )
    return jars


def jar_conf(settings: Settings) -> dict[str, str]:
    """The settings that give an engine these JARs, and the user's own. On the class path, because the JVM archives
    classes from there only; a cluster has to be sent them as well."""
    jars, given = [str(jar) for jar in jar_paths(settings)], settings.spark_conf
    sent = {"spark.jars": ",".join([*jars, *filter(None, [given.get("spark.jars")])])}
    if any(os.pathsep in jar for jar in jars):
        return sent
    path = os.pathsep.join([*jars, *filter(None, [given.get("spark.driver.extraClassPath")])])
    return {"spark.driver.extraClassPath": path, **({} if _is_local(settings) else sent)}


def _is_local(settings: Settings) -> bool:
    return settings.spark_master.startswith("local")


def _local_files(settings: Settings) -> dict[str, str]:
    """Classes of our own for files on local disks, and for the logs of Delta tables there (ADR 48). Not for a cluster,
    whose executors look for a class before they are sent JARs; nor without it on the class path: JARs of an older
    set-up lack it."""
    if not _is_local(settings) or os.pathsep in str(settings.jars):
        return {}
    names = {"spark.hadoop.fs.file.impl": "LocalFiles"}
    if "spark.delta.logStore.class" not in settings.spark_conf:  # Delta refuses both
        names["spark.delta.logStore.file.impl"] = "LocalLogStore"
    return {key: f"anabranch.{name}" for key, name in names.items() if (settings.jars / f"spark/{name}.jar").exists()}


def scratch(settings: Settings) -> Path:
    """The scratch folder of this process' engine. Its name holds host and process id, because several machines or
    containers may share a home, and in each of them process ids start at 1."""
    host = re.sub(r"[^A-Za-z0-9.-]", "-", socket.gethostname())
    return settings.home / SCRATCH / f"{host}-{os.getpid()}"


def hold_scratch(settings: Settings) -> Path:
    """Create the scratch folder and hold its lock while this process lives. A killed engine leaves the folder with a
    free lock: so others detect it, on any machine (``operate.maintenance._orphans``). Raises TryAgain LOCK_HELD."""
    folder = scratch(settings)
    path = folder / HOLD
    while folder not in _HELD:
        folder.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):  # the folder of an earlier process with this name is just being deleted
            lock = held_for_good(path, wait=FOLDER_DELETED)
            if path.exists() and path.stat().st_ino == os.fstat(lock).st_ino:
                _HELD[folder] = lock
            else:
                os.close(lock)
    return folder


def scratch_conf(settings: Settings) -> dict[str, str]:
    """Settings that differ in each process. The JVM also unpacks native libraries into the scratch folder (14 MB for
    RocksDB): a killed engine would leave them in ``/tmp`` for ever. The user's settings take precedence."""
    folder, given = str(scratch(settings)), settings.spark_conf
    java = f'"-Djava.io.tmpdir={folder}" {given.get("spark.driver.extraJavaOptions", "")}'.rstrip()
    return {"spark.local.dir": given.get("spark.local.dir", folder), "spark.driver.extraJavaOptions": java}


def engine_conf(settings: Settings, more: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
    """Every Spark setting of this platform, and ``more``; jobs that Airflow submits get the same. The user's settings
    take precedence."""
    return {
        **ENGINE,
        "spark.driver.memory": settings.spark_driver_memory,
        "spark.driver.defaultJavaOptions": java_options(settings),
        "spark.executor.defaultJavaOptions": AVRO_LIMITS,
        "spark.sql.shuffle.partitions": str(settings.shuffle_partitions),
        "spark.sql.warehouse.dir": str(settings.home / "warehouse"),
        **_local_files(settings),
        **more,
        **settings.spark_conf,
        **jar_conf(settings),
        **scratch_conf(settings),
    }


def session(settings: Settings, app: str, more: Mapping[str, str] = MappingProxyType({})) -> SparkSession:
    """The Spark session of this process: created at the first call, the same one afterwards. ``more`` are additional
    settings; the user's settings take precedence.

    Raises BadInput ENGINE_SETTING, which names a setting that Spark rejects; BrokenState ENGINE_NOT_STARTED."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # Otherwise workers of Python functions run any `python3` on the path, without our libraries.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if known := settings.kafka_password.get_secret_value():  # Kafka's client in the JVM reads the variable
        os.environ["ANABRANCH_KAFKA_PASSWORD"] = known
    builder = SparkSession.builder.appName(app)
    if "SPARK_ENV_LOADED" not in os.environ:  # otherwise spark-submit has already chosen the master
        builder = builder.master(settings.spark_master)
    hold_scratch(settings)
    for key, value in engine_conf(settings, more).items():
        builder = builder.config(key, value)
    try:
        spark = builder.getOrCreate()
    except (Py4JError, PySparkException) as error:
        raise refusal(error, settings.spark_conf) or error from error
    keep_java_classes(spark)
    spark.sparkContext.setLogLevel("ERROR")
    try:
        check_values(spark, settings.spark_conf)
    except (BadInput, PySparkException) as error:  # Spark validates some values with the first session only
        spark.stop()
        raise refusal(error, settings.spark_conf) or error from error
    return spark


def existing_session(given: SparkSession | None = None) -> SparkSession | None:
    """``given``, else the session of this process, whichever thread created it; None without one that runs.

    Raises BadInput SESSION_UNFIT when it lacks settings of ``session``: its days would be others, for example."""
    from pyspark.sql import SparkSession

    found = given or SparkSession._instantiatedSession
    if found is None or found.sparkContext._jsc is None:
        return None
    conf = dict(found.sparkContext.getConf().getAll())
    for name, value in _NEEDED.items():
        if value not in conf.get(name, ""):
            raise BadInput(
                "SESSION_UNFIT",
                f"the Spark session of this process has {name}={conf.get(name, 'nothing')!r}, but needs {value!r}",
                state="nothing was run",
                next_step="create it with anabranch.core.engine.spark.session(), or none: one is created as needed",
                setting=name,
            )
    return found


def small(spark: SparkSession, more: Mapping[str, str] | None = None) -> SparkSession:
    """A second session in the engine of ``spark``, configured for small jobs."""
    own = spark.newSession()
    for key, value in {**SMALL, **(more or {})}.items():
        own.conf.set(key, value)
    return own
