"""What every kind of test shares: the one Spark session of the run."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from anabranch.settings import Settings, load_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TEST_OPTIONS = {
    "spark.sql.adaptive.enabled": "false",
    "spark.default.parallelism": "2",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    where = "folder for the pictures that the tests of the UI take; without it they are thrown away"
    parser.addoption("--pictures", type=Path, default=None, help=where)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What shares the one platform runs in one process, and all that has servers of its own in another, beside it."""
    for item in items:
        if item.get_closest_marker("system"):
            shared = "platform" in getattr(item, "fixturenames", ())
            item.add_marker(pytest.mark.xdist_group("platform" if shared else "servers"))


@pytest.fixture(scope="session")
def engine_settings() -> Iterator[Settings]:
    """Settings that the session is started with; tables belong into a home of the test's own."""
    with tempfile.TemporaryDirectory(prefix="anabranch-spark-") as folder:
        yield load_settings(home=Path(folder), spark_driver_memory="2g", spark_conf=TEST_OPTIONS)


@pytest.fixture(scope="session")
def spark(engine_settings: Settings) -> Iterator[SparkSession]:
    """The shared session: made once, stopped at the end (a process that leaves it running may never exit)."""
    from anabranch.spark import session

    shared = session(engine_settings, "anabranch-tests")
    yield shared
    shared.stop()
