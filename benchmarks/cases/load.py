"""Files into landing: ten million rows of Parquet, and what the formats take apart."""

from __future__ import annotations

import shutil
import time
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

import duckdb
from anabranch.contracts import Contract, PlainJson, Topic
from anabranch.core.settings import Settings
from anabranch.ingest.files import load

from benchmarks.figures import Figure, Report, Table
from benchmarks.world import World

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAYS: Final = 365
WRONG: Final = 1_000
"""One row of so many breaks its contract."""
PAID = Contract(
    "payment.made",
    1,
    {
        "type": "object",
        "required": ["paymentId", "at", "cents"],
        "properties": {
            "paymentId": {"type": "string"},
            "at": {"type": "string", "format": "date-time"},
            "cents": {"type": "integer", "minimum": 0},
            "city": {"type": "string"},
            "terminal": {"type": "integer"},
            "online": {"type": "boolean"},
        },
    },
)
TOPIC = Topic("payments", (PAID,), records=PlainJson(id="paymentId", time="at", subject="city"))
_FORMATS: Final = {"parquet": "FORMAT parquet", "csv": "FORMAT csv, HEADER", "jsonl": "FORMAT json"}


def run(world: World) -> Report:
    most, few = world.pick(2_000, 1_000_000, 10_000_000), world.pick(2_000, 200_000, 1_000_000)
    folder = world.scratch("files")
    jobs = {"parquet": most, **dict.fromkeys(("csv", "jsonl"), few)}
    seconds: dict[str, list[float]] = {kind: [] for kind in jobs}
    numbers = count()
    for kind, rows in jobs.items():
        _write(rows, folder / f"payments.{kind}", kind)
    with world.spark() as spark:
        if world.size != "tiny":
            _load(spark, world.fresh(f"load-{next(numbers)}"), folder / "payments.csv", few)
        for _ in range(world.runs):
            for kind, rows in jobs.items():
                # Another home each time: the lock in a home's scratch folder is held while this process lives.
                home = world.fresh(f"load-{next(numbers)}")
                seconds[kind].append(_load(spark, home, folder / f"payments.{kind}", rows))
    table = [
        (kind, f"{rows:,}", f"{median(seconds[kind]):.1f} s", f"{rows / median(seconds[kind]):,.0f}")
        for kind, rows in jobs.items()
    ]
    return Report(
        "load",
        "Files into landing",
        f"Payments of a year in one file, one of {WRONG:,} against its contract, into an empty home, engine warm; "
        "every row is checked for duplicates of any age.",
        (Table("", ("format", "rows", "time", "rows/s"), tuple(table)),),
        (
            Figure(
                "load.parquet",
                f"{most:,} rows of Parquet loaded",
                tuple(seconds["parquet"]),
                " s",
                0,
                300,
                at_least=False,
            ),
        ),
        samples={f"{kind}, s": [*each] for kind, each in seconds.items()},
    )


def _write(rows: int, file: Path, kind: str) -> None:
    """Payments in the order of their times."""
    step = DAYS * 86_400_000_000 // rows
    first = int(datetime(2023, 1, 1, tzinfo=UTC).timestamp())
    at = f"strftime(make_timestamp({first}::BIGINT * 1000000 + n * {step}), '%Y-%m-%dT%H:%M:%SZ')"
    select = f"""SELECT 'p' || n AS "paymentId", {at} AS at,
        CASE WHEN n % {WRONG} = 7 THEN -1 ELSE n % 5000 END AS cents,
        'city ' || n % 400 AS city, n % 90 AS terminal, n % 3 = 0 AS online FROM range({rows}) t(n)"""  # noqa: S608
    duckdb.sql(f"COPY ({select}) TO '{file}' ({_FORMATS[kind]})")


def _load(spark: SparkSession, settings: Settings, file: Path, rows: int) -> float:
    begun = time.monotonic()
    report = load(spark, settings, TOPIC, [str(file)])
    took = time.monotonic() - begun
    wrong = rows // WRONG
    if report.decisions != {"loaded": rows - wrong, "quarantined": wrong, "duplicate": 0}:
        raise AssertionError(f"{rows} rows of {file.name} became {report.decisions}")
    shutil.rmtree(settings.home)
    return took
