"""Reads through Spark leave no files open, in Python's process and in the JVM's."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import anabranch
import psutil
import pytest
from anabranch.core.settings import Settings
from anabranch.serve.routes import set_route
from support import small_halves
from support.small_halves import DAYS, KEYS, VIEW

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
FEW = 8
"""Connections and threads of Spark's own come and go."""


@pytest.mark.parametrize("reads", [pytest.param(500, marks=pytest.mark.sweep), 20])
def test_open_files_are_level(spark: SparkSession, tmp_path: Path, reads: int) -> None:
    """Each of two files, and watched for failures; a commit comes before each tenth. Fewer than those of other engines:
    a read through Spark takes 50 times as long, and one of a new version, whose log Delta reads, ten times that."""
    settings = Settings(home=tmp_path, reader="anna")
    small_halves.start_speed(settings, 1, DAYS[:2])
    set_route(settings, VIEW, {1: 100}, by="test", why="test")
    jvm = psutil.Process(int(spark._jvm.java.lang.ProcessHandle.current().pid()))  # type: ignore[union-attr]
    counts = dict[int, tuple[int, int]]()
    for number in range(1, reads + 1):
        if number % 10 == 0:
            small_halves.replace_speed(settings, 1 + number, DAYS[:2])
        assert anabranch.read(VIEW, settings=settings).to_spark(spark).toArrow().num_rows == 2 * KEYS
        if number in (reads // 2, reads):
            counts[number] = psutil.Process().num_fds(), jvm.num_fds()
    for before, after in zip(counts[reads // 2], counts[reads], strict=True):
        assert after - before <= FEW, counts
