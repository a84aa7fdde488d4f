"""A replay beside the live stream: what a reader of that one feels of it."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median

import polars as pl
from anabranch.change.replay.control import set_pace
from anabranch.change.replay.rate_limit import DEFAULT_SHARE, Pace
from anabranch.change.replay.state import PUBLISHED, ReplayState, list_states
from anabranch.core.project_folder import project_root
from anabranch.core.settings import Settings
from anabranch.ingest.kafka import Producer
from anabranch.ingest.kafka.admin import end_offsets
from anabranch.lake import latest_commit
from anabranch.lake.layout import VersionRef
from anabranch.operate.runtime.environment import environment
from anabranch_samples.publishing import Pace as Sending
from anabranch_samples.publishing import publish

from benchmarks.cases.freshness import WINDOWS, windows
from benchmarks.figures import Figure, Report, Table, percentile
from benchmarks.latency import Sight, latencies
from benchmarks.live_streams import RATE, check, sending, streaming, unsent, watch
from benchmarks.timing import PATIENCE, beside
from benchmarks.world import World

VIEW = "departure_delays"


def run(world: World) -> Report:
    seconds = world.pick(Seconds(1, 1, 3), Seconds(25, 40, 60), Seconds(25, 90, 420))
    live = _beside(world, seconds)
    quiet = live.p95_alone
    times = tuple(p95 / median(quiet) for p95 in live.p95_beside)
    what = "p95 of freshness while it runs, of that without"
    return Report(
        "replay",
        "A replay beside the live stream",
        f"`{VIEW}` replayed over {_days(world)} days beside its live stream at {RATE:,.0f} events/s, at the default "
        f"share ({DEFAULT_SHARE:.0%} of the cores, lowest priority): records of {seconds.alone} s without a replay "
        "against those that came while it ran, by seconds from the append until they could be read. The runs of "
        f"freshness are {WINDOWS} windows of either time, those of the multiple are the replay's slices.",
        (_waits(live), _replay(live.replay)),
        (
            Figure("replay.real_time", "multiple of real time", live.paces, digits=0, limit=20.0),
            Figure("replay.times", what, times, limit=1.1, at_least=False),
        ),
        live.notes,
        {"p95 alone": list(quiet), "p95 beside": list(live.p95_beside)},
    )


def _days(world: World) -> int:
    return world.pick(3, 61, 365)


@dataclass(frozen=True)
class Seconds:
    """How long live records are sent: before anything is measured, without a replay, and beside it."""

    warm: int
    alone: int
    beside: int

    @property
    def records(self) -> int:
        return self.records_before + int(RATE * self.beside)

    @property
    def records_before(self) -> int:
        return int(RATE * (self.warm + self.alone))


@dataclass
class Stretch:
    """When a replay ran beside live records (Unix seconds), and how far it was at the end of that."""

    begun: float = 0.0
    ended: float = 0.0
    replay: ReplayState = field(default_factory=lambda: ReplayState(VIEW, 1, ""))
    progress: list[ReplayState] = field(default_factory=list)
    """Each standing that was seen while live records came."""

    def note(self, known: Sequence[ReplayState]) -> None:
        if known and known[-1].seconds and (not self.progress or known[-1].done > self.progress[-1].done):
            self.progress.append(known[-1])

    def paces(self) -> tuple[float, ...]:
        """Multiples of real time, of each part of the progress: a slice, with the pause behind the one before."""
        parts = [
            (after.event_seconds - before.event_seconds, after.seconds - before.seconds)
            for before, after in pairwise([ReplayState(VIEW, 1, ""), *self.progress])
        ]
        return tuple(events / seconds for events, seconds in parts if seconds > 0)


@dataclass(frozen=True)
class Live:
    """Seconds from append to readable, ascending: without a replay, while one ran, and around its publication where
    that came before the last record."""

    alone: Sequence[float]
    beside: Sequence[float]
    handover: Sequence[float]
    p95_alone: tuple[float, ...]
    p95_beside: tuple[float, ...]
    paces: tuple[float, ...]
    replay: ReplayState
    notes: tuple[str, ...]


def _beside(world: World, seconds: Seconds) -> Live:
    share = world.pick(1.0, DEFAULT_SHARE, DEFAULT_SHARE)
    with streaming(world, (VIEW,), "live-replayed") as settings:
        events, held = unsent(settings, world, _days(world))
        history, live = events.head(events.height - seconds.records), events.tail(seconds.records)
        files = [settings.home / f"produced-{name}.parquet" for name in ("history", "beside")]
        with Producer(settings, world.declared) as producer:
            publish(producer, history, files[0], Sending())
        _until_level(settings, world.topic.name, held + history.height)

        def sent_alone() -> None:
            time.sleep(seconds.warm + seconds.alone)
            _until_sent(settings, world, held + history.height + seconds.records_before)

        with (
            sending(settings, world, live, files[1]) as thread,
            _replayed(settings, thread, sent_alone, share) as stretch,
        ):
            sights = watch(settings, (VIEW,), thread, held + events.height)
        told = check(settings, (VIEW,))
        return _measured(settings, sights[VIEW], files[1], stretch, told, int(RATE * seconds.warm))


@contextmanager
def _replayed(
    settings: Settings, sending: threading.Thread, begin: Callable[[], None], share: float
) -> Iterator[Stretch]:
    """A replay while records come, once ``begin`` returns. What is left of it behind the last record is walked with all
    cores: it is published all the same."""
    ref = VersionRef(settings, VIEW, 1)
    stretch = Stretch()
    program = [
        sys.executable,
        str(project_root() / "spark_jobs" / "replay.py"),
        "--view",
        VIEW,
        "--version",
        "1",
    ]
    program += ["--share", f"{share}"]

    def work() -> None:
        begin()
        stretch.begun, log = time.time(), settings.home / "replay.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*program, "--run", "bench"], env=environment(settings), stdout=output, stderr=subprocess.STDOUT
            )
            while process.poll() is None and sending.is_alive():
                stretch.note(list_states(ref))
                time.sleep(0.2)
            stretch.ended = time.time()
            while process.poll() is None and not list_states(ref):
                time.sleep(0.2)  # a slow engine: it has not begun
            known = list_states(ref)
            stretch.replay = known[-1] if known else stretch.replay
            if process.poll() is None:
                set_pace(settings, stretch.replay, Pace(1.0))
            code = process.wait(PATIENCE)
        known = list_states(ref)
        if code or not known or known[-1].phase != PUBLISHED:
            raise RuntimeError(f"the replay ended with {code}: {known} {log.read_text()[-2000:]}")

    with beside("replays", work):
        yield stretch


def _until_sent(settings: Settings, world: World, records: int) -> None:
    """However late a busy machine sends its first one."""
    deadline = time.monotonic() + PATIENCE
    while sum(end_offsets(settings, world.topic.in_kafka).values()) < records:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{records} records have not been sent")
        time.sleep(0.2)


def _until_level(settings: Settings, topic: str, records: int) -> None:
    deadline = time.monotonic() + 600
    while True:
        found = latest_commit(VersionRef(settings, VIEW, 1).speed_table)
        position = found.note.cut.positions.get(topic) if found else None
        if position is not None and sum(position.offsets.values()) >= records:
            return
        if time.monotonic() > deadline:
            raise TimeoutError("the stream has not come to the end of history")
        time.sleep(0.5)


def _measured(settings: Settings, sights: Sequence[Sight], file: Path, stretch: Stretch, told: str, warm: int) -> Live:
    """Each live record but the ``warm`` first belongs to the stretch in which it was appended. A publication ends its
    replay: what was appended in the five seconds before waits for the stream that starts again, and is told apart."""
    sent = pl.read_parquet(file, columns=["partition", "offset", "append_time"]).sort("append_time")[warm:]
    at = pl.col("append_time").dt.epoch("us") / 1e6
    shown = list_states(VersionRef(settings, VIEW, 1))[-1].updated_ms / 1000
    quietly = sent.filter(at <= stretch.begun)
    busily = sent.filter(at.is_between(stretch.begun, min(stretch.ended, shown - 5)))
    around = _of(sent.filter(at.is_between(shown - 5, shown + 5)), sights)
    notes = [told]
    if around:
        notes.append(
            f"In the ten seconds around its publication the stream starts again: a record waited {around[-1]:.1f} s."
        )
    p95, p95_beside = (windows(records, sights).get("p95", ()) for records in (quietly, busily))
    alone, busy = _of(quietly, sights), _of(busily, sights)
    return Live(alone, busy, around, p95, p95_beside, stretch.paces(), stretch.replay, tuple(notes))


def _of(sent: pl.DataFrame, sights: Sequence[Sight]) -> list[float]:
    return latencies(sent, sights) if sent.height else []


def _waits(live: Live) -> Table:
    stretches = (("without a replay", live.alone), ("while one ran", live.beside), ("around its end", live.handover))
    rows = [
        (what, f"{len(waits):,}", *(f"{percentile(waits, share):.2f} s" for share in (0.5, 0.95, 0.99)))
        for what, waits in stretches
        if waits
    ]
    return Table(
        "Seconds from the append until readable", ("records came", "records", "p50", "p95", "p99"), tuple(rows)
    )


def _replay(found: ReplayState) -> Table:
    """How far it was with the last live record."""
    row = (
        f"{found.done:,} of {found.total:,}",
        f"{found.seconds:.1f} s",
        f"{found.records_per_second:,.0f}",
        f"{found.real_time or 0:,.0f}",
        f"{found.cores_used:.0%}",
    )
    columns = ("records", "in", "records/s", "times real time", "share of the cores")
    return Table("The replay beside the live stream", columns, (row,))
