"""The logs of Delta tables on local disks are listed as Delta lists them, at a price that doesn't grow with them."""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from anabranch.core.engine.spark import engine_conf
from anabranch.core.settings import Settings
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
OURS = "spark.delta.logStore.file.impl"
ALL_SYSTEMS = "spark.delta.logStore.class"
DELTAS = "io.delta.storage.HDFSLogStore"


class Stores:
    """Delta's store of logs and ours, both asked from here."""

    def __init__(self, spark: SparkSession) -> None:
        assert spark._jvm is not None
        self._jvm = spark._jvm
        self._conf = spark._jsparkSession.sessionState().newHadoopConf()
        self.deltas = self._jvm.io.delta.storage.HDFSLogStore(self._conf)
        self.ours = self._jvm.anabranch.LocalLogStore(self._conf)

    def path(self, file: Path) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._jvm.java.net.URI(file.as_uri()))

    def listed(self, store: Any, first: Path) -> list[tuple[object, ...]]:
        found = store.listFrom(self.path(first), self._conf)
        statuses = list[tuple[object, ...]]()
        while found.hasNext():
            each = found.next()
            statuses.append((each.getPath().toString(), each.getLen(), each.getModificationTime(), each.isDirectory()))
        return statuses

    def seconds(self, store: Any, first: Path) -> float:
        path, taken = self.path(first), []
        for _ in range(20):
            began = time.perf_counter()
            store.listFrom(path, self._conf)
            taken.append(time.perf_counter() - began)
        return statistics.median(taken[5:])


@pytest.fixture
def stores(spark: SparkSession) -> Stores:
    return Stores(spark)


def version(number: int, kind: str = "json") -> str:
    return f"{number:020}.{kind}"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log of 40 commits with all that may lie beside them."""
    log = tmp_path / "a table: ü" / "_delta_log"
    log.mkdir(parents=True)
    for number in range(40):
        (log / version(number)).write_text("{}" * number)
        (log / version(number, "crc")).write_text("{}")
        (log / f".{version(number)}.crc").write_text("checksum")
    (log / version(20, "checkpoint.parquet")).write_text("rows")
    (log / f"{21:020}.{22:020}.compacted.json").write_text("{}")
    (log / f".{version(40)}.0b1c.tmp").write_text("half a commit")
    (log / "_last_checkpoint").write_text("{}")
    (log / "_sidecars").mkdir()
    (log / "name:with colon").touch()
    (log / "gone").symlink_to(log / "nowhere")
    return log


@pytest.mark.parametrize(
    ("first", "files"),
    [(" ", 86), (version(0), 84), (version(21), 40), (f"{21:020}.", 42), (version(39, "crc"), 5), ("~", 0)],
)
def test_what_is_listed_is_what_delta_lists(stores: Stores, log: Path, first: str, files: int) -> None:
    ours = stores.listed(stores.ours, log / first)
    assert ours == stores.listed(stores.deltas, log / first)
    assert len(ours) == files


def test_without_a_log_it_says_so_as_delta_does(stores: Stores, log: Path) -> None:
    for store in (stores.deltas, stores.ours):
        with pytest.raises(Py4JJavaError, match="FileNotFoundException"):
            stores.listed(store, log.parent / "other" / "_delta_log" / version(0))


def test_another_file_system_is_listed_by_delta(stores: Stores, spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / version(1)).touch()
    conf = spark._jsparkSession.sessionState().newHadoopConf()
    conf.set("fs.file.impl", "org.apache.hadoop.fs.RawLocalFileSystem")
    conf.setBoolean("fs.file.impl.disable.cache", True)
    assert stores.ours.listFrom(stores.path(tmp_path / version(0)), conf).hasNext()


def test_the_end_of_a_long_log_is_listed_at_the_price_of_the_end(stores: Stores, tmp_path: Path) -> None:
    """Streams ask at each trigger. Delta's store asks for the status of all files, so an idle platform gets dearer."""
    for number in range(2_000):
        (tmp_path / version(number)).touch()
    last = tmp_path / version(1_999)
    assert stores.listed(stores.ours, last) == stores.listed(stores.deltas, last)
    assert stores.seconds(stores.ours, last) < stores.seconds(stores.deltas, last) / 4


def test_tables_of_an_engine_have_it(spark: SparkSession, stores: Stores, tmp_path: Path) -> None:
    spark.range(3).write.format("delta").save(str(tmp_path / "table"))
    assert spark._jvm is not None
    log = spark._jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, str(tmp_path / "table"))
    delegate = log.store().getDelegate(stores.path(tmp_path / "table"))
    assert delegate.logStoreImpl().getClass().getName() == "anabranch.LocalLogStore"


def test_ones_own_store_of_logs_is_taken(spark: SparkSession, engine_settings: Settings) -> None:
    """Delta refuses a store for all file systems beside one for this one."""
    assert engine_conf(engine_settings)[OURS] == "anabranch.LocalLogStore"
    own = engine_conf(engine_settings.model_copy(update={"spark_conf": {OURS: "some.Other"}}))
    assert own[OURS] == "some.Other"
    every = engine_conf(engine_settings.model_copy(update={"spark_conf": {ALL_SYSTEMS: DELTAS}}))
    assert OURS not in every
    assert spark._jvm is not None
    check = getattr(getattr(spark._jvm.org.apache.spark.sql.delta.storage, "LogStore$"), "MODULE$")
    check.checkLogStoreConfConflicts(_spark_conf(spark, every))
    with pytest.raises(AnalysisException, match="DELTA_INVALID_LOGSTORE_CONF"):
        check.checkLogStoreConfConflicts(_spark_conf(spark, every | {OURS: "anabranch.LocalLogStore"}))


def _spark_conf(spark: SparkSession, given: dict[str, str]) -> Any:
    assert spark._jvm is not None
    conf = spark._jvm.org.apache.spark.SparkConf(False)
    for key, value in given.items():
        conf.set(key, value)
    return conf
