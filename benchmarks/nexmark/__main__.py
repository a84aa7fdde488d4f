"""``python -m benchmarks.nexmark``: send the benchmark's events to the broker of the settings (``anabranch up``)."""

from __future__ import annotations

import argparse
import json
import sys
from datetime import UTC, datetime
from pathlib import Path

from anabranch.core.errors import AnabranchError
from anabranch.core.settings import load_settings
from anabranch_samples.producing import parse_pace

from benchmarks.nexmark.generator import Workload
from benchmarks.nexmark.producing import produce


def main() -> int:
    usual = Workload(100_000)
    parser = argparse.ArgumentParser(prog="python -m benchmarks.nexmark", description=__doc__)
    parser.add_argument("--events", type=int, default=usual.events)
    parser.add_argument("--seed", type=int, default=usual.seed, help="the same seed gives the same events")
    parser.add_argument("--late", type=float, default=usual.late, help="the share that comes half a day late or more")
    parser.add_argument("--rate", type=float, help="events a second; as fast as it goes when left out")
    parser.add_argument("--log", type=Path, help="the file that keeps what was sent")
    args = parser.parse_args()
    settings = load_settings()
    file = args.log or settings.home / "produced" / f"nexmark-{datetime.now(UTC):%Y%m%dT%H%M%S%fZ}.parquet"
    try:
        workload, pace = Workload(args.events, args.seed, late=args.late), parse_pace(args.rate, None)
        summary = produce(settings, workload, file, pace)
    except AnabranchError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    print(json.dumps(summary.as_dict()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
