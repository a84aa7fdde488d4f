"""A read that fails inside of Spark is counted against the version that its reader was led to, once, by its engine."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import anabranch
import pytest
from anabranch.core.settings import Settings
from anabranch.lake.layout import VersionRef
from anabranch.serve import reader_log
from anabranch.serve.reader_log import failed_reads
from anabranch.serve.routes import set_route
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from support import small_halves
from support.small_halves import DAYS, VIEW

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
ENGINES_OWN = (PySparkException, Py4JJavaError)


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setattr(reader_log, "_SECONDS", 0.0)
    settings = Settings(home=tmp_path)
    small_halves.start_speed(settings, 1, DAYS[:2])
    set_route(settings, VIEW, {1: 100}, by="test", why="test")
    return settings


def counted(settings: Settings, expected: int) -> list[tuple[str, str]]:
    """Spark tells its listeners a moment later."""
    ref = VersionRef(settings, VIEW, 1)
    end = time.monotonic() + 30
    while len(found := failed_reads(ref)) < expected and time.monotonic() < end:
        time.sleep(0.05)
    time.sleep(0.5)
    return [(each.engine, each.code) for each in failed_reads(ref)] if found else []


def test_a_torn_file_is_counted(spark: SparkSession, settings: Settings) -> None:
    rows = anabranch.read(VIEW, settings=settings).to_spark(spark)
    file = sorted(Path(VersionRef(settings, VIEW, 1).speed_table).rglob("*.parquet"))[0]
    file.write_bytes(file.read_bytes()[:-40] + b"\0" * 40)
    with pytest.raises(ENGINES_OWN):
        rows.groupBy("origin").count().collect()
    assert counted(settings, 1) == [("spark", "FILE_UNREADABLE")]


def test_a_file_that_is_gone_is_counted(spark: SparkSession, settings: Settings) -> None:
    rows = anabranch.read(VIEW, where="written_by > 0", settings=settings).to_spark(spark)
    for file in Path(VersionRef(settings, VIEW, 1).speed_table).rglob("*.parquet"):
        file.unlink()
    with pytest.raises(ENGINES_OWN):
        rows.toArrow()
    assert counted(settings, 1) == [("spark", "READING_EXPIRED")]


def test_what_the_readers_own_query_does_wrong_is_not_counted(
    spark: SparkSession, settings: Settings, tmp_path: Path
) -> None:
    rows = anabranch.read(VIEW, settings=settings).to_spark(spark)
    with pytest.raises(ENGINES_OWN):
        rows.select(F.raise_error(F.lit("mine"))).collect()
    (tmp_path / "file").touch()
    with pytest.raises(ENGINES_OWN):  # java.io.IOException, of the reader's own file
        rows.write.parquet(str(tmp_path / "file" / "below"))
    assert rows.count() == 2 * small_halves.KEYS
    assert counted(settings, 0) == []
