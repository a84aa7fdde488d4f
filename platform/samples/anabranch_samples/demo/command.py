"""``anabranch demo``: runs the whole platform on a month of real flights, then changes what readers get."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from datetime import date, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer
from anabranch.core.errors import BadInput, BrokenState

if TYPE_CHECKING:
    from anabranch.core.settings import Settings

    from anabranch_samples.demo._story import Story

FIRST = date(2013, 1, 1)
VIEWS = ("departure_delays", "route_day", "aircraft_now")
REPROCESSED = "departure_delays"
SEED = 2013
# Small epochs, so that the month lands in about ten steps and lateness is decided as in real operation.
RECORDS_PER_EPOCH = 8_000
TIMEOUT_SECONDS = 240.0


def register(app: typer.Typer) -> None:
    app.command("demo")(demo)


def demo(
    days: Annotated[int, typer.Option(min=2, max=59, help="Days of flights, from 2013-01-01.")] = 31,
    faults: Annotated[bool, typer.Option(help="Also send duplicates, malformed bytes, wrong clocks, ...")] = True,
    second: Annotated[
        bool, typer.Option("--second-act/--one-act", help="Continue with changes, and with topics of other teams.")
    ] = True,
) -> None:
    """Run everything on a month of real flights: log, landing, both paths, certificates, served views. Then change it:
    repair late days, build a new version, move readers to it; the first try fails and is rolled back. Then take in
    topics of other teams, in plain JSON and in Avro."""
    from anabranch.core.project_folder import check_project
    from anabranch.core.settings import load_settings
    from anabranch.operate.runtime import lifecycle

    from anabranch_samples.demo._second_act import second_act
    from anabranch_samples.demo._story import Story
    from anabranch_samples.demo._third_act import third_act
    from anabranch_samples.demo.change import own_project

    normal = load_settings()
    check_project(normal.project)
    _check_sample(normal)
    home = normal.home / "demo"
    if lifecycle.status(normal):
        raise BrokenState(
            "PLATFORM_RUNS",
            "the platform is already running, on the ports that the demo needs",
            next_step="anabranch down",
        )
    settings = normal.model_copy(update={"home": home, "max_offsets_per_trigger": RECORDS_PER_EPOCH})
    lifecycle.stop(settings)  # stops what an interrupted demo left running
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
            third_act(settings, story, story.proof)
    finally:
        with story.step("stopping everything that was started"):
            lifecycle.stop(settings)
    story.closing(time.monotonic() - begun)


def _check_sample(settings: Settings) -> None:
    """Raises BadInput DEMO_PROJECT if the project lacks what the demo sends and shows."""
    from anabranch.contracts import load_declarations
    from anabranch.views import load_views

    from anabranch_samples.flights import EVENT_TYPES

    declared = load_declarations(settings.contracts_folder)
    views = {view.name for view in load_views(settings.views_folder, declared)}
    types = {kind for topic in declared.topics.values() for kind in topic.event_types}
    lacks = [*(set(EVENT_TYPES) - types), *(set(VIEWS) - views)]
    if lacks:
        raise BadInput(
            "DEMO_PROJECT",
            f"{settings.project} isn't a project of the sample flights: it lacks {', '.join(sorted(lacks))}",
            state="nothing was started",
            next_step="anabranch init planes --sample flights, and run the demo there",
        )


def _waiting(states: Any) -> str:
    waiting = [name for name, state in states.items() if state not in ("running", "done")]
    return ", ".join(waiting) if len(waiting) < 4 else f"{len(waiting)} parts"


def _whole_way(settings: Settings, story: Story, days: int, faults: bool) -> None:
    from anabranch_samples.demo.run import check_oracle, landed_everything, landing_proofs, reprocess, speed_at
    from anabranch_samples.faults import SMALL, Faults
    from anabranch_samples.producing import produce_flights
    from anabranch_samples.publishing import Pace

    summary = produce_flights(settings, FIRST, days, Pace(), SMALL if faults else Faults(), SEED)
    story.produced(summary)
    with story.step("landing it, epoch by epoch") as tell:
        _until(lambda: landed_everything(settings, tell), "landing", settings)
    story.landed(landing_proofs(settings))
    with story.step("the speed layer catches up") as tell:
        _until(lambda: all(speed_at(settings, view, tell) for view in VIEWS), "speed", settings)
    story.speed(VIEWS)
    last = FIRST + timedelta(days=days - 1)
    with story.step(f"Airflow rebuilds, certifies and publishes {REPROCESSED}") as tell:
        run, verdict = reprocess(settings, REPROCESSED, FIRST, last, tell)
    story.reprocessed(run, verdict)
    story.served(REPROCESSED)
    if not story.oracle("flights", [check_oracle(settings, view, summary.file) for view in VIEWS]):
        raise BrokenState("ORACLE_DISAGREES", "the oracle has other rows than readers get", next_step="see them above")


def _until(done: Callable[[], bool], part: str, settings: Settings) -> None:
    """Polls ``done``. If it takes too long, raises BrokenState DEMO_STUCK with the last lines of the service's log."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not done():
        if time.monotonic() > deadline:
            log = settings.logs / f"{part}.log"
            tail = "\n".join(log.read_text(errors="replace").splitlines()[-5:]) if log.exists() else "no log"
            raise BrokenState(
                "DEMO_STUCK", f"{part} hasn't caught up in {TIMEOUT_SECONDS:.0f} s:\n{tail}", next_step=f"read {log}"
            )
        time.sleep(0.3)
