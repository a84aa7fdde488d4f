"""Streams that really hang, in processes as they really run: they end by themselves, and go on when started again."""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from pathlib import Path

import psutil
import pytest
from anabranch.core.project_folder import project_root
from anabranch.core.settings import Settings, load_settings
from anabranch.lake import latest_commit
from anabranch.lake.layout import VersionRef
from anabranch.operate.runtime import lifecycle
from anabranch_samples.faults import Faults
from anabranch_samples.producing import produce_flights
from anabranch_samples.publishing import Pace
from support.landed_sample import Event, Landing
from support.processes import alive, eventually
from support.real_programs import Process, process
from support.sent_records import landed

pytestmark = pytest.mark.system

LIMIT = 15
"""A busy machine with a cold engine does nothing for seconds."""
SHORT = {"ANABRANCH_HANG_SECONDS": str(LIMIT)}
VIEW = """
import posixpath

from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType


def awaited(origin):
    while origin == "XXX" and posixpath.exists("{hangs}"):
        pass
    return origin


@view(name="waiting", version=1, events=["flight.departed"], key=["origin", "window_start"],
      partition_by="window_start")
def waiting(departed: DataFrame) -> DataFrame:
    place = F.udf(awaited, StringType())
    hourly = departed.withColumn("origin", place("origin")).groupBy(F.window("event_time", "1 hour"), "origin")
    return hourly.agg(F.count("*").alias("flights")).select(
        "origin", F.col("window.start").alias("window_start"), "flights"
    )
"""


def departed(hour: int, origin: str) -> Event:
    data = {"origin": origin, "dest": "ATL", "carrier": "AA", "flight": 1, "dep_delay": 0, "tailnum": "N1"}
    return Event("flight.departed", datetime(2013, 1, 1, hour, tzinfo=UTC), f"{hour}{origin}", data)


@pytest.fixture
def hangs(tmp_path: Path) -> Path:
    """As long as it is there, the view's function never returns for an event from XXX."""
    return tmp_path / "hangs"


@pytest.fixture
def settings(tmp_path: Path, hangs: Path) -> Settings:
    """A project of one view."""
    project = tmp_path / "project"
    (project / "spark_jobs" / "views").mkdir(parents=True)
    shutil.copytree(project_root() / "spark_jobs" / "contracts", project / "spark_jobs" / "contracts")
    shutil.copy(project_root() / "spark_jobs" / "speed.py", project / "spark_jobs")
    (project / "spark_jobs" / "views" / "waiting.py").write_text(VIEW.replace("{hangs}", str(hangs)))
    return load_settings(home=tmp_path / "home", project=project, jars=project_root() / ".jars", shuffle_partitions=1)


def epoch(settings: Settings) -> int:
    committed = latest_commit(VersionRef(settings, "waiting", 1).speed_table)
    return committed.note.cut.epoch("flights") if committed else 0


def ended(stream: Process, members: list[psutil.Process]) -> bool:
    return stream.popen.poll() is not None and not any(alive(member) for member in members)


@pytest.mark.sweep
@pytest.mark.timeout(600)
def test_a_view_whose_function_never_returns_is_started_again(settings: Settings, hangs: Path) -> None:
    landing = Landing(settings)
    landing.land([departed(5, "JFK")])
    with process(settings, "speed", SHORT) as stream:
        for hour in (6, 7):
            eventually(lambda: epoch(settings) == landing.cut.epoch("flights"), 90)
            landing.land([departed(hour, "JFK")])
        eventually(lambda: epoch(settings) == 3, 60)
        time.sleep(1.5 * LIMIT)  # with nothing to do
        assert stream.popen.poll() is None, stream.said[-2_000:]

        members = stream.members()
        hangs.touch()
        landing.land([departed(8, "XXX")])
        begun = time.monotonic()
        assert stream.popen.wait(120) == 1
        seconds = time.monotonic() - begun
        eventually(lambda: ended(stream, members), 20)
        assert LIMIT <= seconds < 4 * LIMIT
        assert "[STREAM_HANGS]" in stream.said
        assert "view/waiting/v1/speed is in micro-batch 3, without progress" in stream.said
        assert "core/engine/liveness.py" in stream.said  # the stacks of Python's threads
        assert "stream execution thread for view/waiting/v1/speed" in stream.said  # and of the engine's
        assert epoch(settings) == 3

    hangs.unlink()
    with process(settings, "speed", SHORT) as again:
        eventually(lambda: epoch(settings) == 4, 90)
        assert again.popen.poll() is None


def send(settings: Settings, day: int) -> int:
    told = produce_flights(settings, date(2013, 1, day), 1, Pace(), Faults(), day, quiet=True)
    return sum(count for (topic, _, _), count in told.records.items() if topic == "flights")


def reaches(stream: Process, settings: Settings, sent: int) -> None:
    eventually(lambda: stream.popen.poll() is not None or landed(settings) == sent, 90)
    assert stream.popen.poll() is None, stream.said[-4_000:]


@contextmanager
def paused(stream: Process, *, engine_only: bool) -> Iterator[None]:
    members = [member for member in stream.members() if not engine_only or "java" in member.name()]
    assert members
    for member in members:
        member.send_signal(signal.SIGSTOP)
    yield
    for member in members:
        if alive(member):
            member.send_signal(signal.SIGCONT)


@pytest.mark.sweep
@pytest.mark.timeout(600)
def test_landing_whose_engine_does_not_answer_is_started_again_and_a_pause_of_all_of_it_is_no_hang(
    own_settings: Callable[[str], Settings],
) -> None:
    with lifecycle.running(own_settings("hanging"), ["kafka"]) as settings:
        with process(settings, "landing", SHORT) as stream:
            eventually(lambda: "landing flights" in stream.said, 60)
            sent = send(settings, 1)
            reaches(stream, settings, sent)
            with paused(stream, engine_only=False):  # a laptop that sleeps
                sent += send(settings, 2)
                time.sleep(1.5 * LIMIT)
            reaches(stream, settings, sent)

            members = stream.members()
            with paused(stream, engine_only=True):
                sent += send(settings, 3)
                begun = time.monotonic()
                assert stream.popen.wait(120) == 1
                seconds = time.monotonic() - begun
            eventually(lambda: ended(stream, members), 20)
            # It may rest for three seconds, and the broker is asked every ten.
            assert seconds < 6 * LIMIT
            assert "[STREAM_HANGS]" in stream.said
            assert "landing/" in stream.said
        with process(settings, "landing", SHORT) as again:
            reaches(again, settings, sent)
