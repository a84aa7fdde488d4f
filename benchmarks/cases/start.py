"""How long people wait for the platform: for `anabranch up`, and for the demo."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping

from anabranch.core.settings import Settings
from anabranch.operate.runtime import lifecycle
from anabranch.operate.runtime.environment import environment
from anabranch_samples.demo.change import own_project

from benchmarks.figures import Figure, Report, Sample, Table, all_seconds
from benchmarks.timing import in_turn
from benchmarks.world import World

UP, DEMO = "anabranch up", "anabranch demo"
STREAMS = ("landing", "speed")
THIRD_ACT = "10. Your own data"
"""What the demo says when its first two acts are over."""
_STREAMS_RUN, _TWO_ACTS = "the streams run", "two acts"


def run(world: World) -> Report:
    settings = own_project(world.fresh("start"))
    tiny = world.size == "tiny"
    jobs = {UP: lambda: _up(settings, ["streams"] if tiny else [])}
    if not tiny:  # the demo has tests of its own
        jobs[DEMO] = lambda: _demo(settings)
    samples = in_turn(jobs, world.runs, world.warm_ups(1))
    shutil.rmtree(settings.home, ignore_errors=True)
    return _report({name: list(found) for name, found in samples.items()})


def _up(settings: Settings, parts: list[str]) -> Sample:
    begun, stages = time.monotonic(), dict[str, float]()

    def seen(states: Mapping[str, str]) -> None:
        if all(states.get(name) == "running" for name in STREAMS):
            stages.setdefault(_STREAMS_RUN, time.monotonic() - begun)

    lifecycle.start(settings, parts, seen)
    seconds = time.monotonic() - begun
    lifecycle.stop(settings)
    return Sample(seconds, stages)


def _demo(settings: Settings) -> Sample:
    begun = time.monotonic()
    command = [sys.executable, "-m", "anabranch.apps.cli.main", "demo"]
    environ = {**os.environ, **environment(settings)}
    try:
        with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True) as running:
            assert running.stdout is not None
            two_acts = seconds_until(THIRD_ACT, running.stdout, begun)
    finally:
        lifecycle.stop(settings.model_copy(update={"home": settings.home / "demo"}))  # if it was killed
    if running.returncode or two_acts is None:
        raise RuntimeError(f"the demo has failed: exit code {running.returncode}")
    return Sample(time.monotonic() - begun, {_TWO_ACTS: two_acts})


def seconds_until(text: str, lines: Iterable[str], begun: float) -> float | None:
    """When the first line with ``text`` came, in seconds since ``begun``; reads all lines. None if there is none."""
    found = [time.monotonic() - begun for line in lines if text in line]
    return found[0] if found else None


def _report(samples: Mapping[str, list[Sample]]) -> Report:
    def stage(job: str, name: str) -> tuple[float, ...]:
        return tuple(sample.stages[name] for sample in samples[job])

    everything = tuple(sample.seconds for sample in samples[UP])
    figures = [
        Figure("start.streams", "`make up`: the streams run", stage(UP, _STREAMS_RUN), " s", 1, 15.0, False),
        Figure("start.all", "`make up`: everything is ready", everything, " s", 1, 35.0, False),
    ]
    if DEMO in samples:
        whole = tuple(sample.seconds for sample in samples[DEMO])
        figures += [
            Figure("start.demo", "`make demo`, warm: two acts", stage(DEMO, _TWO_ACTS), " s", 0, 200.0, False),
            Figure("start.demo.all", "`make demo`, warm: three acts", whole, " s", 0),
        ]
    rows = [
        (name, f"{len(found)}", ", ".join(f"{sample.seconds:.1f} s" for sample in found))
        for name, found in samples.items()
    ]
    return Report(
        "start",
        "Starting it, and the demo",
        "From the command until the streams run and until every part is ready, in an empty home that an earlier start "
        "has made; and the whole demo: 31 days of flights, three acts, start and stop included.",
        (Table("Every run", ("command", "runs", "seconds"), tuple(rows)),),
        tuple(figures),
        (),
        all_seconds(samples),
    )
