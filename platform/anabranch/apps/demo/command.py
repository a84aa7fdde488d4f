"""``anabranch demo``: a month of real flights the whole way, and a change of what readers see, in one command."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from datetime import date, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer
from anabranch.core.errors import BrokenState

if TYPE_CHECKING:
    from anabranch.apps.demo.story import Story
    from anabranch.core.settings import Settings

FIRST = date(2013, 1, 1)
VIEWS = ("departure_delays", "route_day", "aircraft_now")
REPROCESSED = "departure_delays"
SEED = 2013
# Small epochs, so that the month lands in ten steps and lateness is decided as it would be in real life.
RECORDS_PER_EPOCH = 8_000
PATIENCE = 240.0


def register(app: typer.Typer) -> None:
    app.command("demo")(demo)


def demo(
    days: Annotated[int, typer.Option(min=2, max=59, help="Days of flights, from 2013-01-01.")] = 31,
    faults: Annotated[bool, typer.Option(help="Also send duplicates, malformed bytes, wrong clocks, ...")] = True,
    second: Annotated[bool, typer.Option("--second-act/--one-act", help="Go on with changes.")] = True,
) -> None:
    """Show the whole way on a month of real flights: log, landing, both paths, certificates, served views. Then change
    it: repair late days, build a next version, lead readers there, once in vain."""
    from anabranch.apps.demo.change import own_project
    from anabranch.apps.demo.second_act import second_act
    from anabranch.apps.demo.story import Story
    from anabranch.core.settings import load_settings
    from anabranch.operate.runtime import lifecycle

    normal = load_settings()
    home = normal.home / "demo"
    if lifecycle.status(normal):
        raise BrokenState(
            "PLATFORM_RUNS", "the platform runs already, on the ports that the demo needs", next_step="anabranch down"
        )
    settings = normal.model_copy(update={"home": home, "max_offsets_per_trigger": RECORDS_PER_EPOCH})
    lifecycle.stop(settings)  # what an interrupted demo has left behind
    shutil.rmtree(home, ignore_errors=True)
    settings = own_project(settings)
    story = Story(settings)
    begun = time.monotonic()
    story.opening(days)
    with story.step("starting Kafka, Postgres, Airflow, landing and three speed layers") as tell:
        lifecycle.start(settings, [], lambda states: tell(_waiting(states)))
    try:
        _whole_way(settings, story, days, faults)
        if second:
            second_act(settings, story, FIRST)
    finally:
        with story.step("stopping everything that was started"):
            lifecycle.stop(settings)
    story.closing(time.monotonic() - begun)


def _waiting(states: Any) -> str:
    waiting = [name for name, state in states.items() if state not in ("running", "done")]
    return ", ".join(waiting) if len(waiting) < 4 else f"{len(waiting)} parts"


def _whole_way(settings: Settings, story: Story, days: int, faults: bool) -> None:
    from anabranch.apps.cli.produce_commands import produce_flights
    from anabranch.apps.demo.run import check_oracle, landed_everything, reprocess, speed_at, topics_to_land
    from anabranch.samples.faults import SMALL, Faults
    from anabranch.samples.publishing import Pace

    summary = produce_flights(settings, FIRST, days, Pace(), SMALL if faults else Faults(), SEED)
    story.produced(summary)
    with story.step("landing it, epoch by epoch") as tell:
        _until(lambda: landed_everything(settings, tell), "landing", settings)
    story.landed(topics_to_land(settings))
    with story.step("the speed layer catches up") as tell:
        _until(lambda: all(speed_at(settings, view, tell) for view in VIEWS), "speed", settings)
    story.speed(VIEWS)
    last = FIRST + timedelta(days=days - 1)
    with story.step(f"Airflow rebuilds, certifies and publishes {REPROCESSED}") as tell:
        run, verdict = reprocess(settings, REPROCESSED, FIRST, last, tell)
    story.reprocessed(run, verdict)
    story.served(REPROCESSED)
    if not story.oracle("flights", [check_oracle(settings, view, summary.file) for view in VIEWS]):
        raise BrokenState("ORACLE_DISAGREES", "the oracle has other rows than readers see", next_step="read them above")


def _until(done: Callable[[], bool], part: str, settings: Settings) -> None:
    """Wait for ``done``; what the part's log said last is the error's text when it takes too long."""
    deadline = time.monotonic() + PATIENCE
    while not done():
        if time.monotonic() > deadline:
            log = settings.logs / f"{part}.log"
            tail = "\n".join(log.read_text(errors="replace").splitlines()[-5:]) if log.exists() else "no log"
            raise BrokenState(
                "DEMO_STUCK", f"{part} hasn't caught up in {PATIENCE:.0f} s:\n{tail}", next_step=f"read {log}"
            )
        time.sleep(0.3)
