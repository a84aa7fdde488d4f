"""Engines whose JVM really has too little memory: they end at once, say so with the setting to raise, leave nothing
half-written, and go on where they were once they have more."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from anabranch.compute.batch.manifest import manifest_path
from anabranch.contracts import Topic, load_declarations
from anabranch.core.project_folder import project_root
from anabranch.core.settings import Settings, load_settings
from anabranch.ingest.kafka.admin import create_missing
from anabranch.lake import latest_commit, open_table
from anabranch.lake.layout import VersionRef
from anabranch.operate.runtime import lifecycle
from anabranch.operate.runtime.environment import environment
from support.landed_sample import Event, Landing
from support.parcels_topic import PARCEL, assert_sound, parcel, rows_of, send
from support.processes import alive, eventually
from support.real_programs import Process, process
from support.sent_records import landed

pytestmark = [pytest.mark.system, pytest.mark.sweep]

SMALL, LARGE = {"ANABRANCH_SPARK_DRIVER_MEMORY": "600m"}, {"ANABRANCH_SPARK_DRIVER_MEMORY": "4g"}
"""Below 600 MB Spark doesn't start at all."""
MANY = 300
"""Events of a day: each is a megabyte of the view's one row."""
VIEW = '''
from anabranch.views import view
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@view(name="hoard", version=1, events=["flight.departed"], key=["day"], partition_by="day", refresh="partitions")
def hoard(departed: DataFrame) -> DataFrame:
    """A day's events in one value, each a million letters long."""
    long = F.concat("event_id", F.repeat("tailnum", 500_000))
    days = departed.groupBy(F.to_date("event_time").alias("day")).agg(F.sort_array(F.collect_list(long)).alias("all"))
    return days.select("day", F.size("all").alias("events"), F.length(F.array_join("all", "")).alias("letters"))
'''


TOPIC = """
from pathlib import Path

from anabranch.contracts import Contract, Topic

PARCELS = Topic("parcels", (Contract.from_file(Path(__file__).parent / "parcel.seen.v1.json"),), partitions=2,
                max_message_bytes=11_000_000)
"""
SOME, HEAVY = 200, 100
"""Records of a few bytes, and of eight megabytes each."""


def departed(number: int, day: int) -> Event:
    data = {"origin": "JFK", "dest": "ATL", "carrier": "AA", "flight": 1, "dep_delay": 0, "tailnum": "N1"}
    time = datetime(2013, 1, day, 12, tzinfo=UTC) + timedelta(seconds=number)
    return Event("flight.departed", time, f"{day}-{number:04}", data)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """A project of one view, and of two days: of few events, and of many."""
    project = tmp_path / "project"
    (project / "spark_jobs" / "views").mkdir(parents=True)
    shutil.copytree(project_root() / "spark_jobs" / "contracts", project / "spark_jobs" / "contracts")
    for main in ("speed", "rebuild"):
        shutil.copy(project_root() / "spark_jobs" / f"{main}.py", project / "spark_jobs")
    (project / "spark_jobs" / "views" / "hoard.py").write_text(VIEW)
    return load_settings(home=tmp_path / "home", project=project, jars=project_root() / ".jars", shuffle_partitions=1)


def epoch(settings: Settings) -> int:
    committed = latest_commit(VersionRef(settings, "hoard", 1).speed_table)
    return committed.note.cut.epoch("flights") if committed else 0


def rows(uri: str) -> list[tuple[int, int]]:
    """Days and their counts of events, as a reader of the table finds them."""
    table = open_table(uri)
    found = table.to_pyarrow_table().to_pylist() if table is not None else []
    return sorted((row["day"].day, row["events"]) for row in found)


def assert_says(said: str, code: str, *words: str) -> None:
    """The last thing that is said, behind whatever the engine has to say."""
    last = said[max(said.rindex(f"[{code}]") - 300, 0) :]
    assert all(word in last for word in (*words, "  state: ", "  next:  ")), last
    assert len(last.splitlines()) < 12, last


@contextmanager
def ends_by_itself(settings: Settings, name: str, more: dict[str, str]) -> Iterator[Process]:
    with process(settings, name, more) as started:
        yield started
        members = started.members()
        assert started.popen.wait(120) == 1, started.said[-3_000:]
        eventually(lambda: not any(alive(member) for member in members), 20)


@pytest.mark.timeout(600)
def test_a_stream_without_memory_says_so_and_goes_on_with_more(settings: Settings) -> None:
    ref = VersionRef(settings, "hoard", 1)
    landing = Landing(settings)
    landing.land([departed(n, 1) for n in range(3)])
    with ends_by_itself(settings, "speed", SMALL) as small:
        eventually(lambda: epoch(settings) == 1 or small.popen.poll() is not None, 90)
        assert epoch(settings) == 1, small.said[-3_000:]
        landing.land([departed(n, 2) for n in range(MANY)])
    assert_says(small.said, "ENGINE_OUT_OF_MEMORY", "its heap is 600m", "ANABRANCH_SPARK_DRIVER_MEMORY")
    assert (epoch(settings), rows(ref.speed_table)) == (1, [(1, 3)])

    with process(settings, "speed", LARGE) as large:
        eventually(lambda: epoch(settings) == 2 or large.popen.poll() is not None, 120)
        assert rows(ref.speed_table) == [(1, 3), (2, MANY)], large.said[-3_000:]

        # The kernel's hand, where the machine itself has no memory left.
        members = large.members()
        next(member for member in members if "java" in member.name()).send_signal(signal.SIGKILL)
        assert large.popen.wait(60) == 1
        eventually(lambda: not any(alive(member) for member in members), 20)
    assert_says(large.said, "ENGINE_ENDED", "was killed by SIGKILL", "dmesg")


def rebuild(settings: Settings, more: dict[str, str]) -> subprocess.CompletedProcess[str]:
    main = [sys.executable, str(settings.project / "spark_jobs" / "rebuild.py"), "--view", "hoard", "--version", "1"]
    return subprocess.run(
        [*main, "--days", "2013-01-01..2013-01-02", "--run", "one"],
        cwd=settings.project,
        env={**os.environ, **environment(settings), **more},
        capture_output=True,
        text=True,
        timeout=240,
    )


@pytest.mark.timeout(600)
def test_a_rebuild_without_memory_says_so_and_is_done_with_more(settings: Settings) -> None:
    ref = VersionRef(settings, "hoard", 1)
    Landing(settings).land([departed(n, 1) for n in range(3)], [departed(n, 2) for n in range(MANY)])
    with process(settings, "speed", LARGE) as speed:
        eventually(lambda: epoch(settings) == 2 or speed.popen.poll() is not None, 120)

    small = rebuild(settings, SMALL)
    assert small.returncode == 65  # to try again is of no use
    assert_says(small.stderr, "ENGINE_OUT_OF_MEMORY", "its heap is 600m", "ANABRANCH_SPARK_DRIVER_MEMORY")
    assert not manifest_path(ref, "one").exists()
    assert rows(ref.batch_table) == []

    large = rebuild(settings, LARGE)
    assert large.returncode == 0, large.stderr[-3_000:]
    told = json.loads(large.stdout.splitlines()[-1])
    assert (told["rows"], told["equal"]) == (2, ["2013-01-01", "2013-01-02"]), told


@pytest.fixture
def parcels(own_settings: Callable[[str], Settings], tmp_path: Path) -> Iterator[tuple[Settings, Topic]]:
    """A broker with one topic, and a project that lands it."""
    contracts = tmp_path / "project" / "spark_jobs" / "contracts"
    contracts.mkdir(parents=True)
    told = {"name": PARCEL.name, "version": PARCEL.version, "schema": PARCEL.schema}
    (contracts / "parcel.seen.v1.json").write_text(json.dumps(told))
    (contracts / "parcels.py").write_text(TOPIC)
    shutil.copy(project_root() / "spark_jobs" / "landing.py", contracts.parent)
    with lifecycle.running(own_settings("memory"), ["kafka"]) as broker:
        topic = load_declarations(contracts).topic("parcels")
        create_missing(broker, [topic])
        yield broker.model_copy(update={"project": tmp_path / "project"}), topic


@pytest.mark.timeout(600)
def test_landing_without_memory_says_so_and_lands_the_same_records_with_more(parcels: tuple[Settings, Topic]) -> None:
    """Nobody knows how large the records of a micro-batch are before they are read."""
    settings, topic = parcels
    send(settings, topic, (parcel(n) for n in range(SOME)))
    with ends_by_itself(settings, "landing", SMALL) as landing:
        eventually(lambda: landed(settings, "parcels") == SOME or landing.popen.poll() is not None, 90)
        assert landed(settings, "parcels") == SOME, landing.said[-3_000:]
        landing.signal_all(signal.SIGSTOP)
        send(settings, topic, (parcel(f"heavy {n}", data={"n": n, "text": "y" * 8_000_000}) for n in range(HEAVY)))
        landing.signal_all(signal.SIGCONT)
    assert_says(landing.said, "ENGINE_OUT_OF_MEMORY", "its heap is 600m", "ANABRANCH_SPARK_DRIVER_MEMORY")
    assert landed(settings, "parcels") == len(rows_of(settings, topic)) == SOME

    with process(settings, "landing", LARGE) as again:
        eventually(lambda: landed(settings, "parcels") == SOME + HEAVY or again.popen.poll() is not None, 90)
        assert landed(settings, "parcels") == SOME + HEAVY, again.said[-3_000:]
    assert_sound(settings, topic, SOME + HEAVY)
