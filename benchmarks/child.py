"""One step of a benchmark run in a process of its own: ``python -m benchmarks.child STEP FILE [--quick]``.

A step is ``fill-log``, ``fill-landing`` or the name of a benchmark; its report goes into FILE as JSON. The settings
come from the environment, as every process of the platform gets them.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from anabranch.settings import load_settings

from benchmarks.cases import CASES
from benchmarks.figures import Report
from benchmarks.world import World, fill_landing, fill_log


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("step", choices=["fill-log", "fill-landing", *CASES])
    parser.add_argument("file", type=Path)
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    world = World(load_settings(), args.quick)
    if args.step == "fill-log":
        print(f"    {fill_log(world):,} records", flush=True)
        return
    if args.step == "fill-landing":
        fill_landing(world)
        return
    load, when = os.getloadavg()[0], datetime.now(UTC)
    report: Report = importlib.import_module(CASES[args.step].module).run(world)
    report = replace(report, when=f"{when:%Y-%m-%d %H:%M} UTC", load=load)
    args.file.write_text(json.dumps(report.to_json()))


if __name__ == "__main__":
    main()
