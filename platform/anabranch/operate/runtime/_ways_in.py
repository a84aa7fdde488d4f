"""The ways into the log other than Kafka's own protocol, as services: HTTP, queues of RabbitMQ, StatsD. Each is a part
of the platform once something is declared for it."""

from __future__ import annotations

import sys

from anabranch.contracts import load_declarations
from anabranch.core import part_report
from anabranch.core.errors import BadInput
from anabranch.core.settings import Settings
from anabranch.operate.runtime import process_registry
from anabranch.operate.runtime._http_server import HTTP, has_clients, http_part
from anabranch.operate.runtime._service import Service
from anabranch.operate.runtime.environment import part_environment

QUEUES = "queues"
STATSD = "statsd"
WAYS_IN = (HTTP, QUEUES, STATSD)
_NOTHING_TO_DO = {
    HTTP: ("NO_CLIENTS", "no client may send events over HTTP yet", "anabranch http allow NAME --topic TOPIC"),
    QUEUES: (
        "NO_QUEUES",
        "no queue is declared, or ANABRANCH_AMQP_URL isn't set",
        "declare Queue(NAME, TOPIC) next to the topic, and set ANABRANCH_AMQP_URL",
    ),
    STATSD: ("NO_METRICS", "ANABRANCH_STATSD_TOPIC isn't set", "declare a topic of METRIC, and set it to its name"),
}


def ways_in(settings: Settings) -> tuple[Service, ...]:
    """Those that have something to do. Raises as ``load_declarations`` where ``amqp_url`` is set."""
    http = (http_part(settings),) if has_clients(settings) else ()
    queues = (_part(settings, QUEUES),) if has_queues(settings) else ()
    return (*http, *queues, *((_part(settings, STATSD),) if settings.statsd_topic else ()))


def has_queues(settings: Settings) -> bool:
    """Whether there is a queue to take from."""
    return bool(settings.amqp_url) and bool(load_declarations(settings.contracts_folder).queues)


def why_absent(name: str) -> BadInput | None:
    """The error for a way in that was asked for by name and has nothing to do; None for any other name."""
    if name not in _NOTHING_TO_DO:
        return None
    code, what, next_step = _NOTHING_TO_DO[name]
    return BadInput(
        code, f"{what}, so {name} has nothing to do", state="nothing was started", next_step=next_step, part=name
    )


def _part(settings: Settings, name: str) -> Service:
    return Service(
        name=name,
        command=(sys.executable, "-m", f"anabranch.ingest.{name}"),
        cwd=settings.project,
        log=settings.logs / f"{name}.log",
        env=part_environment(settings, name),
        ready=lambda _: _has_begun(settings, name),
        depends_on=("kafka",),
        grace=30.0,
    )


def _has_begun(settings: Settings, name: str) -> bool:
    """Whether the process that was started last has written its report: it runs, also while what it takes from is
    away."""
    record, report = process_registry.read(settings).get(name), part_report.read(settings, name)
    return record is not None and report is not None and record.pid == report.pid
