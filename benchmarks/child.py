"""One step of a benchmark run in a process of its own: ``python -m benchmarks.child STEP FILE [--size SIZE]``.

A step is ``fill-log``, ``fill-landing`` or the name of a benchmark; its report goes into FILE as JSON. The settings
come from the environment, as every process of the platform gets them.
"""

from __future__ import annotations

import argparse
import importlib
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

from anabranch.core.project_folder import project_root
from anabranch.core.settings import load_settings

from benchmarks import machine
from benchmarks.cases import CASES
from benchmarks.figures import Origin, Report
from benchmarks.trust import busy_share, commit_of, stolen_share
from benchmarks.world import Size, World, fill_landing, fill_log


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("step", choices=["fill-log", "fill-landing", *CASES])
    parser.add_argument("file", type=Path)
    parser.add_argument("--size", choices=get_args(Size), default="full")
    args = parser.parse_args()
    world = World(load_settings(), args.size)
    if args.step == "fill-log":
        print(f"    {fill_log(world):,} records", flush=True)
    elif args.step == "fill-landing":
        fill_landing(world)
    else:
        args.file.write_text(json.dumps(measured(args.step, world).to_json()))


def measured(name: str, world: World) -> Report:
    """Run one benchmark, and record where, when and beside what."""
    patience = 120.0 if world.size == "full" else 0.0
    busy, begun = busy_share(patience, look=5.0 if world.size == "full" else 0.1), datetime.now(UTC)
    speed = machine.speed() if world.size == "full" else ()
    run: Callable[[World], Report] = importlib.import_module(CASES[name].module).run
    with stolen_share() as stolen:
        report = run(world)
    when = f"{begun:%Y-%m-%d %H:%M} UTC"
    origin = Origin(
        commit_of(project_root()),
        when,
        world.size,
        round(busy, 3),
        round(stolen[0], 3),
        machine.hardware(),
        machine.software(world.settings),
        speed,
    )
    return replace(report, origin=origin)


if __name__ == "__main__":
    main()
