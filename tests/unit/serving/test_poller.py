"""A reader that polls every 20 ms while another process merges and publishes: never empty, half, mixed or older."""

from __future__ import annotations

import itertools
import multiprocessing
import random
import time
from datetime import date
from multiprocessing.synchronize import Event
from pathlib import Path

import anabranch
import pytest
import served
from anabranch.settings import Settings
from served import DAYS, KEYS, VIEW

pytestmark = pytest.mark.unit
SECONDS = 12.0


def _write(home: Path, stop: Event) -> None:
    """The stream: each epoch changes all rows of one or two days, in one merge."""
    settings, chance = Settings(home=home), random.Random(1)
    for epoch in itertools.count(2):
        if stop.is_set():
            return
        served.merge_speed(settings, epoch, chance.sample(DAYS, chance.choice((1, 2))))
        time.sleep(0.02)


def _publish(home: Path, stop: Event) -> None:
    """The batch layer: publishes days at the cut of now, in one commit."""
    settings, chance = Settings(home=home), random.Random(2)
    published: dict[date, int] = {}
    while not stop.is_set():
        days = chance.sample(DAYS, 3)
        epoch = anabranch.read(VIEW, settings=settings).cut.epoch("flights")
        published |= dict.fromkeys(days, epoch)
        served.publish(settings, published, days)
        time.sleep(0.05)


def test_a_poller_never_sees_a_refresh_in_the_making(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    served.start_speed(settings, 1)
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    writers = [context.Process(target=work, args=(tmp_path, stop), daemon=True) for work in (_write, _publish)]
    for writer in writers:
        writer.start()
    seen_cut, seen, halves, reads = 0, dict.fromkeys(DAYS, 0), set(), 0
    end = time.monotonic() + SECONDS
    try:
        while time.monotonic() < end:
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
    finally:
        stop.set()
        for writer in writers:
            writer.join(10)
    assert [writer.exitcode for writer in writers] == [0, 0]
    assert halves == {"batch", "speed"}
    assert seen_cut > 20, "the writer wrote nothing to see"
    assert reads > 50
