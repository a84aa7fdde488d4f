"""What every kind of test shares: the one Spark session of the run, a broker, and ports of one's own."""

from __future__ import annotations

import contextlib
import gc
import os
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from anabranch.core.engine.java_options import SHORT_LIVED
from anabranch.core.settings import Settings, load_settings
from anabranch.operate.runtime import lifecycle
from lanes import SYSTEM
from support.short_engines import SMALL_JOBS
from typer.main import get_command

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROJECT = Path(__file__).parent.parent
pytest_plugins = ["support.sweep_report"]
os.environ.setdefault("SPARK_SUBMIT_OPTS", SHORT_LIVED)


def pytest_addoption(parser: pytest.Parser) -> None:
    where = "folder for the pictures that the tests of the UI take; without it they are thrown away"
    parser.addoption("--pictures", type=Path, default=None, help=where)
    parser.addoption("--tasks", type=Path, default=None, help="page that gets the table of test_tasks.py")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What shares the one platform is marked, so that it can run beside all that has servers of its own; where there is
    only one process, behind it. A system test elsewhere would never be run."""

    def shared(item: pytest.Item) -> bool:
        return "platform" in getattr(item, "fixturenames", ())

    folders = [PROJECT / folder for folder in SYSTEM]
    for item in items:
        if item.get_closest_marker("system") and not any(item.path.is_relative_to(folder) for folder in folders):
            raise pytest.UsageError(f"{item.nodeid} is a system test, but in no folder of SYSTEM in tests/lanes.py")
    items.sort(key=shared)
    if "PYTEST_XDIST_WORKER" in os.environ:  # files with an engine take longest: as the last ones, they run alone
        with_engine = {item.path for item in items if "spark" in getattr(item, "fixturenames", ())}
        items.sort(key=lambda item: item.path not in with_engine)
    for item in filter(shared, items):
        item.add_marker(pytest.mark.shared)


def pytest_collection_finish() -> None:
    """From here on nobody keeps byte code: of a view's file that a test changes twice within a second, into the same
    size, Python would run the old one. And what all tests share isn't looked at again by each garbage collection."""
    sys.dont_write_bytecode = True
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    gc.unfreeze()  # else DuckDB says at the end of the process that all of it has leaked


@pytest.fixture(scope="session", autouse=True)
def own_priority() -> Iterator[None]:
    """What comes behind a test that has given this process' priority away is starved by what runs beside it."""
    before = os.getpriority(os.PRIO_PROCESS, 0)
    yield
    assert os.getpriority(os.PRIO_PROCESS, 0) == before, "a test has given the priority of this process away"


@pytest.fixture(scope="session", autouse=True)
def one_command_tree() -> Iterator[None]:
    """Typer's runner builds all commands again for each call, which takes longer than most calls."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("typer.testing._get_command", cache(get_command))
        yield


@pytest.fixture(scope="session")
def engine_settings() -> Iterator[Settings]:
    """Settings that the session is started with; tables belong into a home of the test's own."""
    with tempfile.TemporaryDirectory(prefix="anabranch-spark-") as folder:
        yield load_settings(home=Path(folder), spark_driver_memory="2g", spark_conf=SMALL_JOBS)


@pytest.fixture(scope="session")
def spark(engine_settings: Settings) -> Iterator[SparkSession]:
    """The shared session: made once, stopped at the end (a process that leaves it running may never exit)."""
    from anabranch.core.engine.spark import session

    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("SPARK_SUBMIT_OPTS", raising=False)  # it lives for minutes
        shared = session(engine_settings, "anabranch-tests")
    yield shared
    shared.stop()


@pytest.fixture(scope="session")
def free_port() -> Callable[[], int]:
    """Gives a port of loopback that nobody listens on, and each port once.

    Not from the range that outgoing connections take theirs from: it could be taken before a server gets it.
    """
    low, high = (int(n) for n in Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    # Workers of xdist, or two runs beside each other, would find the same ones free at the same time.
    first = 20_000 + 2_000 * int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    first += 500 * int(os.environ.get("TESTS_BESIDE", "0"))
    candidates: Iterator[int] = iter([*range(first, low), *range(high + 1, 65_535)])

    def next_free() -> int:
        for port in candidates:
            with socket.socket() as probe, contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))
                return port
        raise RuntimeError("no free port")

    return next_free


@pytest.fixture(scope="session")
def own_settings(own_home: Path, free_port: Callable[[], int]) -> Callable[[str], Settings]:
    """Makes the settings of a platform (by the name of its folder) that can run beside others on this machine."""
    names = ("kafka_port", "kafka_controller_port", "postgres_port", "airflow_port")

    def make(name: str) -> Settings:
        ports: dict[str, Any] = {port: free_port() for port in names}
        return Settings(home=own_home / name, bootstrap_servers="", **ports)

    return make


@pytest.fixture(scope="session")
def own_home() -> Iterator[Path]:
    """A folder that Postgres can reach when root runs it as another user (pytest's own folders are private)."""
    with tempfile.TemporaryDirectory(prefix="anabranch-test-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture(scope="session")
def broker(own_settings: Callable[[str], Settings]) -> Iterator[Settings]:
    """A real broker, and the settings that lead to it. Its topics are shared by the session: use your own names."""
    with lifecycle.running(own_settings("broker"), ["kafka"]) as settings:
        yield settings
