"""Freshness at 1,000 events/s, and the memory that it takes: the platform's own processes, watched from outside."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import polars as pl
from anabranch.core.errors import TryAgain
from anabranch.core.settings import Settings
from anabranch.ingest.kafka import Producer
from anabranch.ingest.kafka.admin import ensure_topics
from anabranch.lake import open_table
from anabranch.lake.layout import VersionRef, landing_table
from anabranch.operate.runtime import lifecycle
from anabranch.serve import read
from anabranch_samples.demo.run import check_oracle
from anabranch_samples.flights import flight_events
from anabranch_samples.publishing import Pace, publish

from benchmarks.figures import Figure, Report, Table
from benchmarks.latency import Sight, committed, latencies, summary
from benchmarks.timing import beside
from benchmarks.world import FIRST, World

RATE = 1_000.0
WINDOWS = 5
LOOK_SECONDS = 0.02
MEMORY_SECONDS = 10.0
START_SECONDS = 120.0
ALL_VIEWS = ("departure_delays", "route_day", "aircraft_now")


def run(world: World) -> Report:
    three = _live(world, ALL_VIEWS, "live-three")
    one = _live(world, ("departure_delays",), "live-one") if world.size != "tiny" else three
    first = one.windows["departure_delays"]
    worst = max(three.windows.values(), key=lambda found: median(found["p99"]))
    measured, warm = _seconds(world)
    slowest = "three views, p99 of the slowest view"
    return Report(
        "freshness",
        "Freshness at 1,000 events/s",
        f"Newest event in the log (the broker's append time) to row readable (`anabranch.read` has returned a cut "
        f"that covers it; asked at each commit, looked for every {LOOK_SECONDS * 1000:.0f} ms). Broker, landing, "
        f"speed layer and producer on this machine, each a process of its own but for the producer, which shares the "
        f"reader's; {measured} s after {warm} s of warm-up. A figure's runs are {WINDOWS} windows of that "
        f"time. No hand-written job beside it: its commits would not say what they cover.",
        (_table("One view", one), _table("Three views in one process", three), _memory(one, three)),
        (
            Figure("freshness.one.p50", "one view, p50", first["p50"], " s", limit=1.5, at_least=False),
            Figure("freshness.one.p99", "one view, p99", first["p99"], " s", limit=2.5, at_least=False),
            Figure("freshness.three.p99", slowest, worst["p99"], " s", limit=5.0, at_least=False),
        ),
        (*one.notes, *three.notes),
        {f"one view, {share}": list(values) for share, values in first.items()},
    )


class Live:
    """What one run of the platform was like: seconds from append, per view, at the three points of an event's way."""

    def __init__(self) -> None:
        self.landed: dict[str, float] = {}
        self.written: dict[str, dict[str, float]] = {}
        self.newest: dict[str, dict[str, float]] = {}
        self.windows: dict[str, dict[str, tuple[float, ...]]] = {}
        self.memory: dict[str, list[int]] = {}
        self.notes: list[str] = []


def _seconds(world: World) -> tuple[int, int]:
    """How long is measured, and how long the warm-up is."""
    return world.pick((4, 2), (20, 15), (150, 30))


def _live(world: World, views: Sequence[str], name: str) -> Live:
    settings = prepared(world, views, name)
    measured, warm = _seconds(world)
    events = flight_events(FIRST, 60, world.declared).filter(topic=world.topic.name).head(int(RATE) * (measured + warm))
    live, file = Live(), settings.home / "produced.parquet"
    with lifecycle.running(settings, ["kafka", "landing", "speed"]):
        ensure_topics(settings, world.declared, [world.topic.name])
        until_streaming(settings, views)
        with _memory_watched(settings, live, after=warm), sending(settings, world, events, file) as thread:
            sights = watch(settings, views, thread, events.height)
        live.notes.append(check(settings, views, file))
        _measure(settings, live, sights, file, float(warm), world)
    shutil.rmtree(settings.home, ignore_errors=True)
    return live


def prepared(world: World, views: Sequence[str], name: str) -> Settings:
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


def until_streaming(settings: Settings, views: Sequence[str]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while any(open_table(VersionRef(settings, view, 1).speed_table) is None for view in views):
        if time.monotonic() > deadline:
            raise TimeoutError(f"the streams haven't started after {START_SECONDS:.0f} s; see {settings.logs}")
        time.sleep(0.2)


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


@contextmanager
def _memory_watched(settings: Settings, live: Live, after: float) -> Iterator[None]:
    """The share of memory (PSS, bytes) of each part, every 10 s once the warm-up is over."""
    stop = threading.Event()

    def look() -> None:
        if stop.wait(after):
            return
        while True:
            for part in lifecycle.status(settings):
                live.memory.setdefault(part.name, []).append(part.memory_bytes)
            if stop.wait(MEMORY_SECONDS):
                return

    thread = threading.Thread(target=look, name="memory")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def check(settings: Settings, views: Sequence[str], file: Path) -> str:
    """Every row that was served, against an independent answer from the producer's own file."""
    rows = 0
    for view in views:
        _, agreement, _ = check_oracle(settings, view, file)
        assert agreement.agreed, f"{view}: {agreement}"
        rows += agreement.rows
    return f"{', '.join(views)}: all {rows:,} served rows agree with an independent oracle over the producer's file."


def _measure(
    settings: Settings, live: Live, sights: dict[str, list[Sight]], file: Path, warm: float, world: World
) -> None:
    topic = world.topic.name
    sent = pl.read_parquet(file, columns=["partition", "offset", "append_time"])
    sent = sent.filter(pl.col("append_time") >= sent["append_time"].min() + pl.duration(seconds=warm))
    landings = committed(landing_table(settings, topic), topic)
    live.landed = summary(latencies(sent, landings))
    begin = sent["append_time"].min().timestamp()  # type: ignore[union-attr]
    for view, seen in sights.items():
        commits = committed(VersionRef(settings, view, 1).speed_table, topic)
        live.written[view] = summary(latencies(sent, commits))
        live.newest[view] = summary(latencies(sent, seen))
        live.windows[view] = windows(sent, seen)
        counts = [sum(sight.time >= begin for sight in found) for found in (landings, commits)]
        live.notes.append(
            f"{view}{' (of three)' if len(sights) > 1 else ''}: {sent.height:,} events measured, "
            f"{counts[0]} epochs landed, {counts[1]} micro-batches committed."
        )


def windows(sent: pl.DataFrame, sights: Sequence[Sight]) -> dict[str, tuple[float, ...]]:
    """The percentiles of each of WINDOWS windows of equal length, by the time of append; none without a record."""
    times = sent["append_time"].dt.epoch("us")
    if not len(times):
        return {}
    first, last = int(times.min()), int(times.max())  # type: ignore[arg-type]
    parts = sent.with_columns(((times - first) * WINDOWS // (last - first + 1)).alias("window")).partition_by("window")
    found = [summary(latencies(part, sights)) for part in parts]
    return {share: tuple(part[share] for part in found) for share in found[0]}


def _table(title: str, live: Live) -> Table:
    def row(what: str, found: dict[str, float]) -> tuple[str, ...]:
        return (what, *(f"{found[key]:.2f} s" for key in ("p50", "p90", "p99", "max")))

    rows = [row("landed", live.landed)]
    for view, newest in live.newest.items():
        rows += [row(f"{view}: committed", live.written[view]), row(f"{view}: **readable**", newest)]
    return Table(f"{title}: seconds from the append", ("the newest event is", "p50", "p90", "p99", "max"), tuple(rows))


def _memory(one: Live, three: Live) -> Table:
    def shown(live: Live, part: str) -> tuple[str, str]:
        found = live.memory.get(part) or [0]
        return f"{median(found) / 2**20:,.0f} MB", f"{max(found) / 2**20:,.0f} MB"

    parts = [*dict.fromkeys([*one.memory, *three.memory])]
    rows = [(part, *shown(one, part), *shown(three, part)) for part in parts]
    for live in (one, three):
        live.memory["all"] = [sum(values) for values in zip(*live.memory.values(), strict=False)]
    rows.append(("all", *shown(one, "all"), *shown(three, "all")))
    columns = ("process", "one view", "highest", "three views", "highest")
    return Table("Memory of each process (PSS with its children)", columns, tuple(rows))
