"""The platform's streams over live records: started, fed at a pace, read after each commit, and held against an
independent answer."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import polars as pl
from anabranch.core.errors import TryAgain
from anabranch.core.settings import Settings
from anabranch.ingest.kafka import Producer
from anabranch.ingest.kafka.admin import end_offsets, ensure_topics
from anabranch.lake import open_table
from anabranch.lake.layout import VersionRef
from anabranch.operate.runtime import lifecycle
from anabranch.serve import read
from anabranch_samples.demo.run import check_oracle
from anabranch_samples.flights import flight_events
from anabranch_samples.publishing import Pace, publish

from benchmarks.latency import Sight
from benchmarks.timing import beside
from benchmarks.world import FIRST, World

RATE = 1_000.0
LOOK_SECONDS = 0.02
START_SECONDS = 120.0
ALL_VIEWS = ("departure_delays", "route_day", "aircraft_now")


@contextmanager
def streaming(world: World, views: Sequence[str], name: str) -> Iterator[Settings]:
    """Broker, landing and speed layer with these views only, in an empty home of that name; what runs already, if the
    world has it."""
    if world.platform:
        yield world.settings
        return
    settings = _prepared(world, views, name)
    with lifecycle.running(settings, ["kafka", "landing", "speed"]):
        ensure_topics(settings, world.declared, [world.topic.name])
        _until_streaming(settings, views)
        yield settings
    shutil.rmtree(settings.home, ignore_errors=True)


def _prepared(world: World, views: Sequence[str], name: str) -> Settings:
    """A home and a project with these views only: the same programs then run only these."""
    fresh, real = world.fresh(name), world.settings.project / "spark_jobs"
    project = fresh.home.parent / f"{name}-project"
    shutil.rmtree(project, ignore_errors=True)
    shutil.copytree(real / "contracts", project / "spark_jobs" / "contracts")
    (project / "spark_jobs" / "views").mkdir()
    for view in views:
        shutil.copy(real / "views" / f"{view}.py", project / "spark_jobs" / "views")
    for main in ("landing.py", "speed.py"):
        shutil.copy(real / main, project / "spark_jobs")
    return fresh.model_copy(update={"project": project})


def _until_streaming(settings: Settings, views: Sequence[str]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while any(open_table(VersionRef(settings, view, 1).speed_table) is None for view in views):
        if time.monotonic() > deadline:
            raise TimeoutError(f"the streams haven't started after {START_SECONDS:.0f} s; see {settings.logs}")
        time.sleep(0.2)


def unsent(settings: Settings, world: World, days: int) -> tuple[pl.DataFrame, int]:
    """The flights of so many days, without as many as the log holds already, and how many those are."""
    held = sum(end_offsets(settings, world.topic.in_kafka).values())
    return flight_events(FIRST, days, world.declared).filter(topic=world.topic.name).slice(held), held


@contextmanager
def sending(settings: Settings, world: World, events: pl.DataFrame, file: Path) -> Iterator[threading.Thread]:
    """Send the events at their pace beside the block, which ends when they are sent."""

    def send() -> None:
        with Producer(settings, world.declared) as producer:
            publish(producer, events, file, Pace(rate=RATE))

    with beside("producer", send) as thread:
        yield thread


def watch(settings: Settings, views: Sequence[str], sending: threading.Thread, total: int) -> dict[str, list[Sight]]:
    """Read every view after each of its commits until all that was sent is readable; when which cut was seen first."""
    sights: dict[str, list[Sight]] = {view: [] for view in views}
    commits = {view: _Commits(VersionRef(settings, view, 1).speed_table) for view in views}
    deadline = time.monotonic() + 2 * total / RATE + START_SECONDS
    while any(not found or sum(found[-1].offsets.values()) < total for found in sights.values()):
        for view, found in sights.items():
            if not commits[view].more():
                continue
            try:
                cut = read(view, settings=settings).cut
            except TryAgain:
                continue  # nothing has been committed yet
            ((_, position),) = cut.positions.items()
            if not found or position.epoch > found[-1].epoch:
                found.append(Sight(time.time(), position.epoch, dict(position.offsets)))
        if time.monotonic() > deadline:
            ends = {view: sum(found[-1].offsets.values()) if found else 0 for view, found in sights.items()}
            raise TimeoutError(f"of {total} events only {ends} can be read (producer at work: {sending.is_alive()})")
        time.sleep(LOOK_SECONDS)
    return sights


class _Commits:
    """Whether a table has got another commit since the last look: so cheap that the looking slows nothing down."""

    def __init__(self, uri: str) -> None:
        self._log = Path(uri) / "_delta_log"
        self._version = -1

    def more(self) -> bool:
        before = self._version
        while (self._log / f"{self._version + 1:020d}.json").exists():
            self._version += 1
        return self._version > before


def check(settings: Settings, views: Sequence[str]) -> str:
    """Every row that was served, against an independent answer from all files of the producers (``produced-*``)."""
    whole, rows = settings.home / "sent.parquet", 0
    pl.read_parquet(settings.home / "produced-*.parquet").write_parquet(whole)
    for view in views:
        _, agreement, _ = check_oracle(settings, view, whole)
        assert agreement.agreed, f"{view}: {agreement}"
        rows += agreement.rows
    return f"{', '.join(views)}: all {rows:,} served rows agree with an independent oracle over the producer's file."
