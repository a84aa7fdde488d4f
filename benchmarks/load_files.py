"""Loads made payments from a file into an empty home, and says how long that takes.

``python -m benchmarks.load_files --rows 10000000 --format parquet``
"""

from __future__ import annotations

import argparse
import tempfile
import time
from datetime import datetime
from pathlib import Path

import duckdb
from anabranch.contracts import Contract, PlainJson, Topic
from anabranch.core.engine_end import engine
from anabranch.core.settings import load_settings
from anabranch.core.spark import OWN_CODE
from anabranch.ingest.files import load

DAYS = 365
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
_FORMATS = {"parquet": "FORMAT parquet", "csv": "FORMAT csv, HEADER", "jsonl": "FORMAT json"}


def write_payments(rows: int, file: Path, kind: str) -> None:
    """Payments of a year, in the order of their times, one in a thousand of them against its contract."""
    step = DAYS * 86_400_000_000 // rows
    first = int(datetime(2023, 1, 1).timestamp())  # noqa: DTZ001 - only where the year begins
    at = f"strftime(make_timestamp({first}::BIGINT * 1000000 + n * {step}), '%Y-%m-%dT%H:%M:%SZ')"
    select = f"""SELECT 'p' || n AS "paymentId", {at} AS at, CASE WHEN n % 1000 = 7 THEN -1 ELSE n % 5000 END AS cents,
        'city ' || n % 400 AS city, n % 90 AS terminal, n % 3 = 0 AS online FROM range({rows}) t(n)"""  # noqa: S608
    duckdb.sql(f"COPY ({select}) TO '{file}' ({_FORMATS[kind]})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--format", choices=sorted(_FORMATS), default="jsonl")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="load-files-") as folder:
        file = Path(folder) / f"payments.{args.format}"
        write_payments(args.rows, file, args.format)
        settings = load_settings(home=Path(folder) / "home")
        with engine(settings, "bench-load", OWN_CODE) as spark:
            begun = time.monotonic()
            report = load(spark, settings, TOPIC, [str(file)], lambda line: print(f"{clock(begun)} {line}", flush=True))
            took = time.monotonic() - begun
        print(
            f"{report.landed:,} rows of {file.stat().st_size >> 20} MB in {took:.1f} s: {report.landed / took:,.0f}/s"
        )
        print(report.decisions, dict(report.problems))


def clock(begun: float) -> str:
    return f"{time.monotonic() - begun:7.1f} s"


if __name__ == "__main__":
    main()
