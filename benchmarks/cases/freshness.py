"""Freshness at 1,000 events/s, and the memory that it takes: the platform's own processes, watched from outside."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import polars as pl
from anabranch.core.settings import Settings
from anabranch.lake.layout import VersionRef, landing_table
from anabranch.operate.runtime import lifecycle

from benchmarks.figures import Figure, Report, Table
from benchmarks.latency import Sight, committed, latencies, summary
from benchmarks.live_streams import ALL_VIEWS, LOOK_SECONDS, RATE, check, sending, streaming, unsent, watch
from benchmarks.world import World

WINDOWS = 5
MEMORY_SECONDS = 10.0


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
    return world.pick((2, 1), (20, 15), (150, 30))


def _live(world: World, views: Sequence[str], name: str) -> Live:
    measured, warm = _seconds(world)
    with streaming(world, views, name) as settings:
        events, held = unsent(settings, world, days=60)
        events = events.head(int(RATE) * (measured + warm))
        live, file = Live(), settings.home / "produced-live.parquet"
        with _memory_watched(settings, live, after=warm), sending(settings, world, events, file) as thread:
            sights = watch(settings, views, thread, held + events.height)
        live.notes.append(check(settings, views))
        _measure(settings, live, sights, file, int(RATE) * warm, world)
    return live


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


def _measure(
    settings: Settings, live: Live, sights: dict[str, list[Sight]], file: Path, warm: int, world: World
) -> None:
    """The ``warm`` first records are left out."""
    topic = world.topic.name
    sent = pl.read_parquet(file, columns=["partition", "offset", "append_time"]).sort("append_time")[warm:]
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
