"""Lists the platform's services, and resolves the names and groups that a start is given."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from anabranch.core.errors import BadInput
from anabranch.core.project_folder import view_files
from anabranch.core.settings import Settings
from anabranch.operate.jobs import job_file
from anabranch.operate.runtime._postgres_server import postgres_part
from anabranch.operate.runtime._service import Service
from anabranch.operate.runtime._ways_in import ways_in, why_absent
from anabranch.operate.runtime.airflow_parts import COMPONENTS, airflow_parts
from anabranch.operate.runtime.environment import part_environment
from anabranch.operate.runtime.kafka_server import kafka_part

SPEED = "speed"
STREAMS = ("landing", SPEED)
GROUPS = {"airflow": tuple(f"airflow-{name}" for name in COMPONENTS), "streams": STREAMS}
"""Names for several services."""
STEADY_SECONDS = 3.0


def catalog(settings: Settings) -> tuple[Service, ...]:
    """Returns every service of this platform. With ``bootstrap_servers`` of another cluster there is no own broker;
    ways in that have nothing to do are left out."""
    broker = () if settings.bootstrap_servers else (kafka_part(settings),)
    return (*broker, postgres_part(settings), *airflow_parts(settings), *_streams(settings), *ways_in(settings))


def parts_named(settings: Settings, names: Sequence[str] = ()) -> tuple[Service, ...]:
    """Returns the services with these names or groups and their dependencies; all services if no name is given.

    Raises BadInput PART_UNKNOWN, PART_EXTERNAL, NO_VIEWS, or that of a way in that has nothing to do.

    Without a view `speed` is no part: it would end at once.
    """
    parts = catalog(settings)
    if not declares_views(settings):
        parts = _without_speed(settings, parts, names)
    if not names:
        return parts
    known = {part.name: part for part in parts}
    if settings.bootstrap_servers and "kafka" in names:
        raise BadInput(
            "PART_EXTERNAL",
            f"Kafka runs on another cluster here ({settings.bootstrap_servers}) and can't be started",
            next_step="unset ANABRANCH_BOOTSTRAP_SERVERS to use the embedded broker",
        )
    for name in names:
        if name not in known and (absent := why_absent(name)) is not None:
            raise absent
    wanted: set[str] = set()
    todo = [part for name in names for part in GROUPS.get(name, (name,)) if part in known or name not in GROUPS]
    while todo:
        name = todo.pop()
        if name not in known:
            choices = ", ".join([*known, *GROUPS])
            raise BadInput("PART_UNKNOWN", f"no part is named {name!r}", next_step=f"choose from {choices}", part=name)
        if name not in wanted:
            wanted.add(name)
            todo += [need for need in known[name].depends_on if need in known]
    return tuple(part for part in parts if part.name in wanted)


def declares_views(settings: Settings) -> bool:
    """Whether the project has a file that may declare views."""
    return bool(view_files(settings.views_folder))


def without_views(settings: Settings) -> str:
    return f"no view is declared in {settings.views_folder}, so speed has nothing to run"


def _without_speed(settings: Settings, parts: tuple[Service, ...], names: Sequence[str]) -> tuple[Service, ...]:
    if SPEED in names:
        raise BadInput(
            "NO_VIEWS",
            without_views(settings),
            state="nothing was started",
            next_step="declare a view there (a file like those that anabranch init writes), or leave speed out",
        )
    return tuple(part for part in parts if part.name != SPEED)


def _streams(settings: Settings) -> tuple[Service, ...]:
    """The two streaming processes."""
    return tuple(
        Service(
            name=name,
            command=(sys.executable, str(job_file(settings, name))),
            cwd=settings.project,
            log=settings.logs / f"{name}.log",
            env=part_environment(settings, name),
            # A stream has no port to probe: after this time it has passed its imports and settings.
            ready=lambda lived: lived >= STEADY_SECONDS,
            depends_on=("kafka",),
            grace=30.0,
        )
        for name in STREAMS
    )
