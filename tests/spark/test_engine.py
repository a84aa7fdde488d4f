"""What an engine leaves on the machine, and where."""

from __future__ import annotations

import shlex
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pyarrow as pa
import pytest
from anabranch.core.engine.idle_memory import trim_engine
from anabranch.core.engine.java_options import class_archive, java_options, live_engine
from anabranch.core.engine.spark import engine_conf, jar_conf, jar_paths, scratch
from anabranch.core.settings import Settings, load_settings
from anabranch.operate.runtime.environment import environment
from anabranch.operate.runtime.kafka_server import java
from anabranch.operate.setup.resolve_jars import compile_source
from py4j import protocol as proto
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
FILES = "spark.hadoop.fs.file.impl"
UNPACKED = ("librocksdbjni", "liblz4", "snappy")


def test_native_libraries_are_unpacked_where_maintenance_finds_them(
    spark: SparkSession, engine_settings: Settings, tmp_path: Path
) -> None:
    """A killed engine takes none of them away: in ``/tmp`` they would stay."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "one.json").write_text('{"key": 1}')
    counted = spark.readStream.schema("key INT").json(str(tmp_path / "in")).groupBy("key").count()
    started = counted.writeStream.format("noop").outputMode("update").option("checkpointLocation", str(tmp_path / "c"))
    started.trigger(availableNow=True).start().awaitTermination()

    assert spark._jvm is not None
    maps = Path(f"/proc/{spark._jvm.java.lang.ProcessHandle.current().pid()}/maps").read_text().splitlines()
    files = {line.split(maxsplit=5)[-1] for line in maps if any(name in line for name in UNPACKED)}
    assert any("librocksdbjni" in file for file in files)
    assert {file for file in files if not Path(file).is_relative_to(scratch(engine_settings))} == set()


def test_an_engine_maps_the_archive_of_its_classes(spark: SparkSession, engine_settings: Settings) -> None:
    """The JVM leaves an archive aside that isn't of its class path, without a word: every start would be slow again."""
    assert spark._jvm is not None
    maps = Path(f"/proc/{spark._jvm.java.lang.ProcessHandle.current().pid()}/maps").read_text()
    assert str(class_archive(engine_settings)) in maps


def test_the_archive_lies_where_engines_can_share_it(spark: SparkSession, engine_settings: Settings) -> None:
    """At a random address, as newer JVMs put it, each engine writes most of it again."""
    assert spark._jvm is not None
    process = psutil.Process(int(spark._jvm.java.lang.ProcessHandle.current().pid()))
    archive = class_archive(engine_settings)
    written = sum(m.private_dirty for m in process.memory_maps() if m.path == str(archive))
    assert 0 < written < archive.stat().st_size / 2


_MEMORY = """
public class Memory {
    public static void main(String[] arguments) {
        byte[][] work = new byte[300][];
        for (int each = 0; each < work.length; each++) work[each] = new byte[1 << 20];
        long atWork = Runtime.getRuntime().totalMemory();
        work = null;
        System.gc();
        System.out.print((atWork >> 20) + " " + (Runtime.getRuntime().totalMemory() >> 20));
    }
}
"""


def test_an_engine_of_streams_returns_what_work_has_taken(
    spark: SparkSession, engine_settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By itself the JVM would keep a 64th of the machine's memory, or more."""
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    options = shlex.split(live_engine(engine_settings)["spark.driver.defaultJavaOptions"])
    (tmp_path / "Memory.java").write_text(_MEMORY)
    compile_source(spark._jvm, tmp_path / "Memory.java", tmp_path / "memory.jar")
    command = [java(), *options, "-Xmx2g", "-cp", str(tmp_path / "memory.jar"), "Memory"]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    at_work, idle = map(int, ended.stdout.split())
    assert at_work >= 300
    assert idle <= 128


def test_our_jars_are_where_the_archive_may_hold_their_classes(spark: SparkSession) -> None:
    """The JVM's own loader; what Spark adds by itself comes from another one."""
    assert spark._jvm is not None
    found = spark._jvm.java.lang.Class.forName("io.delta.sql.DeltaSparkSessionExtension").getClassLoader()
    assert found.equals(spark._jvm.java.lang.ClassLoader.getSystemClassLoader())


def test_ones_own_jars_come_beside_ours(engine_settings: Settings) -> None:
    ours = [str(jar) for jar in jar_paths(engine_settings)]
    own = {"spark.jars": "a.jar", "spark.driver.extraClassPath": "b.jar"}
    given = engine_settings.model_copy(update={"spark_conf": own})
    path = {"spark.driver.extraClassPath": ":".join([*ours, "b.jar"])}
    assert {**own, **jar_conf(given)} == {**own, **path}
    cluster = given.model_copy(update={"spark_master": "spark://host:7077"})
    assert jar_conf(cluster) == {**path, "spark.jars": ",".join([*ours, "a.jar"])}


def test_ones_own_file_system_is_taken_and_ours_only_where_it_is(engine_settings: Settings, tmp_path: Path) -> None:
    """JARs that an older set-up has resolved lack the class: an engine that names it wouldn't start."""
    assert engine_conf(engine_settings)[FILES] == "anabranch.LocalFiles"
    given = engine_settings.model_copy(update={"spark_conf": {FILES: "some.Other"}})
    assert engine_conf(given)[FILES] == "some.Other"
    assert FILES not in engine_conf(engine_settings.model_copy(update={"spark_master": "spark://host:7077"}))
    (tmp_path / "spark").mkdir()
    (tmp_path / "spark" / "delta.jar").touch()
    assert FILES not in engine_conf(engine_settings.model_copy(update={"jars": tmp_path}))


def test_files_are_created_without_other_programs(spark: SparkSession, tmp_path: Path) -> None:
    """Hadoop's own file system starts chmod for each of them, for its checksum and for its folder."""
    assert spark._jvm is not None
    engine = psutil.Process(int(spark._jvm.java.lang.ProcessHandle.current().pid()))
    before = _of_children(engine)
    spark.range(40).withColumn("part", F.col("id") % 40).write.partitionBy("part").parquet(f"{tmp_path}/table")
    assert _of_children(engine) - before < 0.1, "a hundred programs take several times as long"
    files = [path for path in (tmp_path / "table").rglob("*") if path.is_file()]
    assert {path.suffix for path in files if path.name != "_SUCCESS"} == {".parquet", ".crc"}, "checksums stay"
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o644}


def _of_children(process: psutil.Process) -> float:
    """CPU seconds of what a process has started and that has ended: a worker of Python, too."""
    times = process.cpu_times()
    return times.children_user + times.children_system


def test_rights_and_links_are_as_hadoop_has_them(spark: SparkSession, tmp_path: Path) -> None:
    assert spark._jvm is not None
    hadoop, configuration = spark._jvm.org.apache.hadoop.fs, spark._jsparkSession.sessionState().newHadoopConf()
    folder = tmp_path / "folder"
    for rights in (0o750, 0o600, 0o1777):  # the last one with a sticky bit, which Java can't set
        folder.mkdir(exist_ok=True)
        path = hadoop.Path(str(folder))
        files = path.getFileSystem(configuration)
        assert files.getClass().getName() == "anabranch.LocalFiles"
        files.setPermission(path, hadoop.permission.FsPermission(spark._jvm.Short(rights)))
        assert stat.S_IMODE(folder.stat().st_mode) == rights
    spark.range(3).write.parquet(f"{folder}/table")
    (tmp_path / "link").symlink_to(folder / "table")
    assert spark.read.parquet(f"{tmp_path}/link").count() == 3


def test_classes_that_pyspark_names_are_not_looked_for_again(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Java looks for a class in 250 JARs, for each package that it could be in: with a query for each few rows, that is
    a quarter of the time."""
    gateway, asked = spark.sparkContext._gateway, list[str]()
    assert gateway is not None
    client = gateway._gateway_client
    send = client.send_command

    def noted(command: str, *more: Any, **named: Any) -> Any:
        if command.startswith(proto.REFLECTION_COMMAND_NAME + proto.REFL_GET_UNKNOWN_SUB_COMMAND_NAME):
            asked.append(command.split("\n")[2])
        return send(command, *more, **named)

    monkeypatch.setattr(client, "send_command", noted)
    rows = spark.createDataFrame(pa.table({"one": [1, 2]})).select("one", F.lit(2).alias("two"))
    assert rows.where(F.col("one") > 1).toArrow().to_pylist() == [{"one": 2, "two": 2}]
    with pytest.raises(AnalysisException):
        rows.selectExpr("three")
    assert asked == []


def test_checkpoints_are_written_without_other_programs(spark: SparkSession, tmp_path: Path) -> None:
    """Spark's default asks the program `readlink` where each name of a checkpoint leads, eight times for each file."""
    assert spark._jvm is not None
    streaming = spark._jvm.org.apache.spark.sql.execution.streaming.checkpointing
    where = spark._jvm.org.apache.hadoop.fs.Path(f"{tmp_path}")
    files = streaming.CheckpointFileManager.create(where, spark._jsparkSession.sessionState().newHadoopConf())
    assert files.getClass().getSimpleName() == "FileSystemBasedCheckpointFileManager"


def test_without_an_archive_an_engine_is_given_none(tmp_path: Path) -> None:
    settings = load_settings(jars=tmp_path)
    assert "SharedArchiveFile" not in java_options(settings)
    class_archive(settings).touch()
    assert f'"-XX:SharedArchiveFile={tmp_path}/engine.jsa"' in java_options(settings)


OWN = """
from anabranch.core.settings import load_settings
from anabranch.core.engine.spark import scratch, session

settings = load_settings()
jvm = session(settings, "own")._jvm
print(jvm.System.getProperty("java.io.tmpdir") == str(scratch(settings)), jvm.System.getProperty("own.option"))
"""


def test_a_home_of_any_name_and_ones_own_options_go_together(tmp_path: Path) -> None:
    own = {"spark.driver.extraJavaOptions": "-Down.option=kept"}
    settings = load_settings(home=tmp_path / "it's$HOME;(a)&!*", spark_conf=own)
    settings.home.mkdir()
    command = [sys.executable, "-c", OWN]
    done = subprocess.run(command, env=environment(settings), capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["True", "kept"], done.stderr
    said = [line for line in done.stderr.splitlines() if "jdk.incubator" not in line]  # the JVM's own
    assert said == [], "an engine starts in silence"


def test_an_engine_returns_what_its_native_libraries_have_freed(spark: SparkSession) -> None:
    """glibc keeps what is freed between blocks that are still in use."""
    jvm = spark._jvm
    assert jvm is not None
    field = jvm.java.lang.Class.forName("sun.misc.Unsafe").getDeclaredField("theUnsafe")
    field.setAccessible(True)
    unsafe, process = field.get(None), psutil.Process(int(jvm.java.lang.ProcessHandle.current().pid()))
    blocks = [unsafe.allocateMemory(50_000) for _ in range(2_000)]
    for block in blocks:
        unsafe.setMemory(block, 50_000, jvm.Byte(1))
    kept = blocks[::50]
    for block in set(blocks).difference(kept):
        unsafe.freeMemory(block)
    held = process.memory_info().rss
    trim_engine(jvm)
    assert held - process.memory_info().rss > 50_000_000
    for block in kept:
        unsafe.freeMemory(block)
