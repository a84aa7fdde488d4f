"""One key and one hour of a view of ten million rows, by each engine, beside a table that delta-rs wrote."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import anabranch
import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.fs as fs
from anabranch.core.settings import Settings, load_settings
from anabranch.lake import CommitMetadata
from anabranch.lake.commits import create, replace
from anabranch.lake.cut import Cut, Position
from anabranch.lake.files import stage_arrow
from anabranch.lake.layout import VersionRef
from anabranch.views.model.definition import CHANGED, PARTITION_DATE
from deltalake import DeltaTable, WriterProperties, write_deltalake

from benchmarks.fairness import check_layout
from benchmarks.figures import Figure, Report, Sample, Samples, Table, all_seconds, ratios
from benchmarks.timing import in_turn
from benchmarks.world import FIRST, World

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VIEW, DAYS = "departures_read", 30
RATIO, MEGABYTES = 1.5, 500.0
_HOUR = datetime(FIRST.year, FIRST.month, FIRST.day, 10, tzinfo=UTC) + timedelta(days=DAYS // 2)
_TIME = pa.timestamp("us", "UTC")
WHERE = {
    "one key": "flight = 'f7919'",
    "one hour": f"departed_at >= timestamp '{_HOUR:%F %T}' and departed_at < timestamp '{_HOUR:%F} 11:00:00'",
}
FILTERS: Mapping[str, ds.Expression] = {
    "one key": ds.field("flight") == "f7919",
    "one hour": (ds.field("departed_at") >= pa.scalar(_HOUR, _TIME))
    & (ds.field("departed_at") < pa.scalar(_HOUR + timedelta(hours=1), _TIME)),
}
IN_POLARS = {
    "one key": pl.col("flight") == "f7919",
    "one hour": (pl.col("departed_at") >= _HOUR) & (pl.col("departed_at") < _HOUR + timedelta(hours=1)),
}
Read = Callable[[], pa.Table]
PYTHON_WAYS: Mapping[str, Callable[[anabranch.Reading], pa.Table]] = {
    "Polars": lambda reading: reading.to_polars(lazy=True).collect().to_arrow(),
    "DuckDB": lambda reading: reading.to_duckdb().to_arrow_table(),
    "pandas": lambda reading: pa.Table.from_pandas(reading.to_pandas(), preserve_index=False),
    "Arrow": lambda reading: reading.to_arrow(),
}


def rows_of(world: World) -> int:
    return world.pick(30_000, 300_000, 10_000_000)


def run(world: World) -> Report:
    settings, count = world.fresh("reads"), rows_of(world)
    beside = str(world.scratch("reads-delta-rs"))
    _write(settings, beside, count)
    samples: dict[str, Samples] = {}
    with world.spark() as spark:
        for question in WHERE:
            ours, theirs = _platform(settings, question, spark), _delta_rs(beside, question, spark)
            found = _check_same(question, ours, theirs)
            print(f"    {question}: {found:,} rows", flush=True)
            jobs = {
                f"{side}{name}": _timed(read)
                for side, ways in (("", ours), ("delta-rs: ", theirs))
                for name, read in ways.items()
            }
            samples[question] = in_turn(jobs, world.runs, world.warm_ups(1))
    ways = list(PYTHON_WAYS)[: world.pick(1, 4, 4)]  # each is a process of its own
    runs = range(world.runs)
    memory = {q: {way: [_peak(settings, way, q) for _ in runs] for way in ways} for q in WHERE}
    return _report(count, samples, memory, check_layout(VersionRef(settings, VIEW, 1).speed_table, beside))


def _write(settings: Settings, beside: str, count: int) -> None:
    """The same rows twice, a file a day: as the speed half of a view, and by delta-rs alone."""
    uri, staged = VersionRef(settings, VIEW, 1).speed_table, []
    table = create(uri, _day(0, 1).schema, [PARTITION_DATE], CommitMetadata(f"view/{VIEW}/v1/speed", "create", Cut()))
    for number in range(DAYS):
        rows = _day(number, count // DAYS)
        staged += stage_arrow(rows, uri, f"day-{number}", PARTITION_DATE)
        snappy = WriterProperties(compression="SNAPPY")
        write_deltalake(beside, rows, partition_by=[PARTITION_DATE], mode="append", writer_properties=snappy)
    cut = Cut({"flights": Position(1, {0: count})})
    replace(table, staged, CommitMetadata(f"view/{VIEW}/v1/speed", "filled", cut), None)


def _day(number: int, count: int) -> pa.Table:
    """Rows in the order of time, with keys in none: the key of one row may be anywhere."""
    day, first = FIRST + timedelta(days=number), number * count
    begin = int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * 1_000_000
    n = pa.array(range(count), pa.int64())
    flights = pc.multiply(pc.add(n, first), 7919)
    columns = {
        "departed_at": pc.add(pc.multiply(n, 86_400_000_000 // count), begin).cast(_TIME),
        "flight": pc.binary_join_element_wise("f", _modulo(flights, count * DAYS).cast(pa.string()), ""),
        "origin": pa.array(["EWR", "JFK", "LGA"]).take(_modulo(n, 3)),
        "log_offset": pc.add(n, first),
        "dep_delay": _modulo(pc.multiply(n, 7919), 400),
        "distance": pc.divide(n.cast(pa.float64()), 7.0),
        PARTITION_DATE: pa.array([day] * count, pa.date32()),
        CHANGED: pa.array([1] * count, pa.int64()),
    }
    return pa.table(columns)


def _modulo(numbers: pa.Array, by: int) -> pa.Array:
    return pc.subtract(numbers, pc.multiply(pc.divide(numbers, by), by))


def _platform(settings: Settings, question: str, spark: SparkSession) -> dict[str, Read]:
    def reading() -> anabranch.Reading:
        return anabranch.read(VIEW, settings=settings, where=WHERE[question])

    def of(way: Callable[[anabranch.Reading], pa.Table]) -> Read:
        return lambda: way(reading())

    return {
        **{name: of(way) for name, way in PYTHON_WAYS.items()},
        "Spark": lambda: reading().to_spark(spark).toArrow(),
    }


def _delta_rs(uri: str, question: str, spark: SparkSession) -> dict[str, Read]:
    def dataset() -> ds.Dataset:
        # Arrow's own file system: with delta-rs' a process sometimes aborts when it exits.
        return DeltaTable(uri).to_pyarrow_dataset(filesystem=fs.SubTreeFileSystem(uri, fs.LocalFileSystem()))

    def arrow() -> pa.Table:
        return dataset().to_table(filter=FILTERS[question])

    def pandas() -> pa.Table:
        import pandas as pd

        frame = arrow().to_pandas(types_mapper=pd.ArrowDtype)
        return pa.Table.from_pandas(frame, preserve_index=False)

    def files() -> duckdb.DuckDBPyRelation:
        found = [each.removeprefix("file://") for each in DeltaTable(uri).file_uris()]
        return _duckdb().sql("SELECT * FROM read_parquet($files, hive_partitioning = false)", params={"files": found})

    return {
        "Polars": lambda: pl.scan_delta(uri).filter(IN_POLARS[question]).collect().to_arrow(),
        "DuckDB": lambda: _duckdb().from_arrow(dataset()).filter(WHERE[question]).to_arrow_table(),
        "DuckDB over its files": lambda: files().filter(WHERE[question]).to_arrow_table(),
        "pandas": pandas,
        "Arrow": arrow,
        "Spark": lambda: spark.read.format("delta").load(uri).where(WHERE[question]).toArrow(),
    }


def _duckdb() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def _check_same(question: str, ours: Mapping[str, Read], theirs: Mapping[str, Read]) -> int:
    """All ways of both sides give the same rows; how many."""
    found = {}
    for name, read in [*ours.items(), *((f"delta-rs: {n}", r) for n, r in theirs.items())]:
        rows = read().select(["log_offset", "flight", "departed_at", "dep_delay"]).sort_by("log_offset")
        found[name] = [tuple(map(str, row.values())) for row in rows.to_pylist()]
    first = next(iter(found.values()))
    wrong = [name for name, rows in found.items() if rows != first]
    if wrong or not first:
        raise AssertionError(f"{question}: other rows by {wrong}, or none at all ({len(first)})")
    return len(first)


def _timed(read: Read) -> Callable[[], Sample]:
    def job() -> Sample:
        begun = time.perf_counter()
        read()
        return Sample(time.perf_counter() - begun)

    return job


def _peak(settings: Settings, way: str, question: str) -> float:
    """The peak memory of a process that does nothing but this read, in MB.

    By the kernel's mark of the process itself: ``getrusage`` has that of the one that it was forked from, too.
    """
    command = [sys.executable, "-m", "benchmarks.cases.reads", str(settings.home), way, question]
    return float(subprocess.run(command, check=True, capture_output=True, text=True, timeout=600).stdout)


Memory = Mapping[str, Mapping[str, list[float]]]
"""The peak of each run in MB, by read and engine."""


def _report(count: int, samples: Mapping[str, Samples], memory: Memory, layout: str) -> Report:
    rows, figures = [], []
    for question, runs in samples.items():
        for name in [*PYTHON_WAYS, "Spark"]:
            ours, theirs = runs[name], runs[f"delta-rs: {name}"]
            times = ratios(ours, theirs)
            rows.append((question, name, *_spread(ours), *_spread(theirs), f"{median(times):.2f}"))
            cited = f"reads.{question.split()[1]}.{name.lower()}"
            what = f"{question} in {name}: time, of the same on a table of delta-rs"
            figures.append(Figure(cited, what, times, limit=RATIO, at_least=False))
        rows.append(
            (question, "DuckDB's own scan of the files", "", "", *_spread(runs["delta-rs: DuckDB over its files"]), "")
        )
    columns = ("read", "engine", "view", "spread", "delta-rs", "spread", "view / delta-rs")
    peaks = [(way, *(f"{median(memory[q][way]):.0f} MB" for q in memory)) for way in next(iter(memory.values()))]
    worst = max((peaks for each in memory.values() for peaks in each.values()), key=median)
    what = "peak memory of a read with a condition, the engine that takes most"
    figures.append(Figure("reads.memory", what, tuple(worst), " MB", 0, MEGABYTES, at_least=False))
    return Report(
        "reads",
        "Reads with a condition",
        f"One key and one hour of a view of {count:,} rows on {DAYS} days, a file a day, by anabranch.read, beside "
        "the same condition on a table of the same rows that delta-rs wrote, read in its own way by each engine.",
        (
            Table(f"Medians of {len(next(iter(samples[next(iter(WHERE))].values())))}", columns, tuple(rows)),
            Table("Peak memory of a process that does this read alone", ("engine", *memory), tuple(peaks)),
        ),
        tuple(figures),
        ("The rows of all engines and of both tables were equal.", layout),
        {
            f"{question}: {job}": seconds
            for question, runs in samples.items()
            for job, seconds in all_seconds(runs).items()
        },
    )


def _spread(runs: Any) -> tuple[str, str]:
    seconds = [run.seconds for run in runs]
    return f"{median(seconds) * 1000:.0f} ms", f"{min(seconds) * 1000:.0f}-{max(seconds) * 1000:.0f} ms"


def main() -> None:
    home, way, question = sys.argv[1:]
    PYTHON_WAYS[way](anabranch.read(VIEW, settings=load_settings(home=Path(home)), where=WHERE[question]))
    status = Path("/proc/self/status").read_text()
    print(int(status.split("VmHWM:")[1].split()[0]) / 1024)


if __name__ == "__main__":
    main()
