"""10,000 saved searches matched against a year of departures, beside trying each search for each event by hand."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
from anabranch.views.saved_searches import matches

from benchmarks import saved_searches
from benchmarks.fairness import check_same
from benchmarks.figures import Figure, Report, Sample, Samples, all_seconds, jobs_table
from benchmarks.handwritten import searches as handwritten
from benchmarks.timing import in_turn
from benchmarks.world import World

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FEW = 2_000
PLATFORM, SMALL, HANDWRITTEN = "platform: all events", "platform: few events", "hand-written: few events"
COLUMNS = ("log_partition", "log_offset", "search")


def run(world: World) -> Report:
    flights = saved_searches.departures(world.days)
    history = saved_searches.history(flights, _searches(world))
    folder = world.scratch("searches")
    with world.spark() as spark:
        searches = _stored(spark, history, folder / "searches")
        events = _stored(spark, flights, folder / "events", files=4)
        few = _stored(spark, flights.head(FEW), folder / "few", files=2)

        def job(name: str, rows: DataFrame) -> Sample:
            begun = time.perf_counter()
            rows.write.format("delta").mode("overwrite").save(str(folder / name))
            return Sample(time.perf_counter() - begun)

        jobs = {PLATFORM: lambda: job("all", _matched(events, searches))}
        samples = in_turn(jobs, world.runs, world.warm_ups(1))
        slow = {
            SMALL: lambda: job("some", _matched(few, searches)),
            HANDWRITTEN: lambda: job("by-hand", handwritten.matching(few, saved_searches.current(history))),
        }
        beside = in_turn(slow, world.pick(1, 1, 5), world.warm_ups(1))
        read = spark.read.format("delta").load
        same = check_same(read(str(folder / "some")), read(str(folder / "by-hand")), COLUMNS)
        found = read(str(folder / "all")).count()
    return _report(_searches(world), len(flights), len(history), found, same, samples, beside)


def _searches(world: World) -> int:
    return world.pick(100, 10_000, 10_000)


def _report(
    searches: int, events: int, versions: int, found: int, same: int, samples: Samples, beside: Samples
) -> Report:
    rate = tuple(events / sample.seconds for sample in samples[PLATFORM])
    return Report(
        "searches",
        "Saved searches",
        f"{searches:,} saved searches ({_mix()} percent), {versions:,} versions of them, matched against {events:,} "
        f"real departures into a Delta table; {found / events:.1f} matches an event. By hand: one Spark job with every "
        f"search as a condition of its own, over {FEW:,} of the events.",
        (jobs_table(samples, events, PLATFORM), jobs_table(beside, FEW, HANDWRITTEN)),
        (Figure("searches.rate", f"events matched against {searches:,} searches", rate, " events/s", 0, limit=20_000),),
        (
            f"Both made the same {same:,} rows of {FEW:,} events.",
            "A worker reads and compiles all searches once; the warm-up has done that.",
        ),
        {**all_seconds(samples), **all_seconds(beside)},
    )


def _matched(events: DataFrame, searches: DataFrame) -> DataFrame:
    return matches(events, searches, on=saved_searches.FIELDS)


def _mix() -> str:
    return ", ".join(f"{kind} {share}" for kind, share in saved_searches.MIX.items())


def _stored(spark: SparkSession, rows: pl.DataFrame, path: Path, files: int = 1) -> DataFrame:
    path.mkdir()
    for number, part in enumerate(rows.iter_slices(-(-len(rows) // files))):
        part.write_parquet(path / f"{number}.parquet")
    return spark.read.parquet(str(path))
