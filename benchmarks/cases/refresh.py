"""What a second of events costs a live view, kept by state and kept by partitions, as its day grows."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from anabranch.compute.speed.view_stream import SpeedQuery, start
from anabranch.testing import Event, Landing
from anabranch.views import View
from anabranch.views.model.definition import Refresh
from anabranch.views.model.handle import ViewHandle

from benchmarks.figures import Figure, Report, Table
from benchmarks.world import FIRST, World

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EPOCH, WARM = 1_000, 6
KINDS: tuple[Refresh, ...] = ("state", "partitions")
AIRPORTS = ("EWR", "JFK", "LGA")
WAIT_SECONDS = 120.0


def run(world: World) -> Report:
    rows, figures = list[tuple[str, ...]](), list[Figure]()
    samples = dict[str, Sequence[float]]()
    with world.spark() as spark:
        for size in world.pick((1_000,), (2_000, 10_000), (10_000, 100_000, 400_000)):
            seconds = _measured(spark, world, size)
            samples |= {f"{kind}, {size:,} events": found for kind, found in seconds.items()}
            state, partitions = (statistics.median(seconds[kind]) for kind in KINDS)
            for kind in KINDS:
                what = f"an epoch beside {size:,} events of its day, kept by {kind}"
                figures.append(Figure(f"refresh.{kind}.{size}", what, tuple(seconds[kind]), " s"))
            rows.append((f"{size:,}", f"{state:.2f} s", f"{partitions:.2f} s", f"{partitions / state:.1f}"))
    columns = ("events of the day", *(f'`refresh="{kind}"`' for kind in KINDS), "ratio")
    return Report(
        "refresh",
        "A view kept by its partitions",
        f"`departure_delays`, live, from the commit of an epoch of {EPOCH:,} events in landing to the commit in the "
        "speed table, median of ten; the same function is kept by Spark's state, and by computing the day again.",
        (Table("", columns, tuple(rows)),),
        tuple(figures),
        samples=samples,
    )


def _measured(spark: SparkSession, world: World, size: int) -> dict[str, list[float]]:
    settings = world.fresh(f"refresh-{size}")
    landing = Landing(settings, world.topic)
    landing.land(_events(0, size, 0, 86_400))
    made, found = size, dict[str, list[float]]()
    for kind in KINDS:
        view: View = replace(world.view, name=f"delays_by_{kind}", refresh=kind)
        query = start(spark, ViewHandle(settings, view, world.topic))
        try:
            _wait(query, landing)
            seconds = []
            for _ in range(world.warm_ups(WARM) + world.pick(1, 4, 10)):
                landing.land(_events(made, EPOCH, 22 * 3600 + 60, 86_400))
                seconds.append(_wait(query, landing))
                made += EPOCH
            found[kind] = seconds[world.warm_ups(WARM) :]
        finally:
            query.stop()
    return found


def _events(first: int, count: int, begin_second: int, end_second: int) -> Sequence[Event]:
    """Departures spread over a part of one day; those of its last two hours are never late."""
    begin = datetime(FIRST.year, FIRST.month, FIRST.day, tzinfo=UTC)
    return [
        Event(
            "flight.departed",
            begin + timedelta(seconds=begin_second + number * 7919 % (end_second - begin_second)),
            f"e{number}",
            {"origin": AIRPORTS[number % 3], "dep_delay": number % 90},
        )
        for number in range(first, first + count)
    ]


def _wait(query: SpeedQuery, landing: Landing) -> float:
    """The seconds until the speed table covers what has landed."""
    begun = time.perf_counter()
    while not query.sink.cut.covers(landing.cut):
        if query.failure:
            raise query.failure
        if time.perf_counter() - begun > WAIT_SECONDS:
            raise TimeoutError(f"{query.view.writer} didn't come to {landing.cut}")
        time.sleep(0.005)
    return time.perf_counter() - begun
