"""A reader that polls every 20 ms while another process merges and publishes: never empty, half, mixed or older."""

from __future__ import annotations

import itertools
import multiprocessing
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import anabranch
import pytest
from anabranch.core.settings import Settings
from anabranch.serve.routes import set_route
from support import small_halves
from support.small_halves import DAYS, KEYS, VIEW

pytestmark = pytest.mark.unit
SECONDS = 12.0
MOVING = 6.0
SLOW = 90.0
"""Seconds that a slow machine gets until its writers have written enough."""


def _write(home: Path, stop: Event) -> None:
    """The stream: each epoch changes all rows of one or two days, in one merge."""
    settings, chance = Settings(home=home), random.Random(1)
    for epoch in itertools.count(2):
        if stop.is_set():
            return
        small_halves.merge_speed(settings, epoch, chance.sample(DAYS, chance.choice((1, 2))))
        time.sleep(0.02)


def _publish(home: Path, stop: Event) -> None:
    """The batch layer: publishes days at the cut of now, in one commit."""
    settings, chance = Settings(home=home), random.Random(2)
    published: dict[date, int] = {}
    while not stop.is_set():
        days = chance.sample(DAYS, 3)
        epoch = anabranch.read(VIEW, settings=settings).cut.epoch("flights")
        published |= dict.fromkeys(days, epoch)
        small_halves.publish(settings, published, days)
        time.sleep(0.05)


@contextmanager
def writing(*work: tuple[Callable[..., None], tuple[Any, ...]]) -> Iterator[None]:
    """Each of these functions in a process of its own, until the block ends; none of them may fail."""
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    writers = [context.Process(target=target, args=(*given, stop), daemon=True) for target, given in work]
    for writer in writers:
        writer.start()
    try:
        yield
    finally:
        stop.set()
        for writer in writers:
            writer.join(10)
    assert [writer.exitcode for writer in writers] == [0] * len(writers)


def test_a_poller_never_sees_a_refresh_in_the_making(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    small_halves.start_speed(settings, 1)
    seen_cut, seen, halves, reads = 0, dict.fromkeys(DAYS, 0), set(), 0
    begun = time.monotonic()
    with writing((_write, (tmp_path,)), (_publish, (tmp_path,))):
        while (now := time.monotonic()) < begun + SECONDS or (seen_cut <= 20 and now < begun + SLOW):
            reading = anabranch.read(VIEW, settings=settings)
            rows = reading.to_arrow().to_pylist()
            assert len(rows) == KEYS * len(DAYS), "an empty or half-written view"
            for day in DAYS:
                values = {r["written_by"] for r in rows if r["window_start"].date() == day} - {None}
                assert len(values) == 1, f"{day} mixes {values}"
                (value,) = values
                assert value >= seen[day], f"{day} went back from {seen[day]} to {value}"
                seen[day] = value
            cut = reading.cut.epoch("flights")
            assert cut >= seen_cut
            seen_cut, reads = cut, reads + 1
            halves |= set(reading.halves.values())
            time.sleep(0.02)
    assert halves == {"batch", "speed"}
    assert seen_cut > 20, "the writer wrote nothing to see"
    assert reads > 50


def _write_version(home: Path, version: int, stop: Event) -> None:
    settings, chance = Settings(home=home), random.Random(version)
    for epoch in itertools.count(2):
        if stop.is_set():
            return
        small_halves.merge_speed(settings, epoch, chance.sample(DAYS, 1), version)
        time.sleep(chance.choice((0.0, 0.02, 0.1)))


def test_readers_that_are_moved_between_live_versions_never_see_an_older_cut(tmp_path: Path) -> None:
    settings, chance = Settings(home=tmp_path), random.Random(3)
    for version in (1, 2):
        small_halves.start_speed(settings, 1, version=version)
    readers = {f"reader-{n}": 0 for n in range(20)}
    changes, versions = 0, set()
    begun = time.monotonic()
    with writing(*((_write_version, (tmp_path, version)) for version in (1, 2))):
        while (now := time.monotonic()) < begun + MOVING or (max(readers.values()) <= 20 and now < begun + SLOW):
            if now > begun + 0.5 * (changes + 1):
                share = (1, 25, 50, 100, 0)[changes % 5]
                set_route(settings, VIEW, {1: 100 - share, 2: share}, by="test", why="a step")
                changes += 1
            reader = chance.choice(list(readers))
            reading = anabranch.read(VIEW, settings=settings, reader=reader)
            assert reading.to_arrow().num_rows == KEYS * len(DAYS), "an empty or half-written view"
            cut = reading.cut.epoch("flights")
            assert cut >= readers[reader], f"{reader} went back from {readers[reader]} to {cut}"
            readers[reader] = cut
            versions.add(reading.version)
            time.sleep(0.02)
    assert versions == {1, 2}
    assert changes > 5
    assert max(readers.values()) > 20, "the writers wrote nothing to see"
