"""The HTTP server for events as a service."""

from __future__ import annotations

import ssl
import sys

from anabranch.core.settings import Settings
from anabranch.ingest.http.access import clients_folder
from anabranch.operate.runtime._loopback import open_here
from anabranch.operate.runtime._service import Service
from anabranch.operate.runtime.environment import part_environment

HTTP = "http"
_PROBE_SECONDS = 2.0


def has_clients(settings: Settings) -> bool:
    """Whether any client is let in: without one, the server is no part of the platform."""
    return any(clients_folder(settings).glob("*.json"))


def http_part(settings: Settings) -> Service:
    return Service(
        name=HTTP,
        command=(sys.executable, "-m", "anabranch.ingest.http"),
        cwd=settings.project,
        log=settings.logs / f"{HTTP}.log",
        env=part_environment(settings, HTTP),
        ready=lambda _: answers(settings),
        depends_on=("kafka",),
        ports={"ANABRANCH_HTTP_PORT": settings.http_port},
        host=settings.http_host,
        grace=30.0,
    )


def answers(settings: Settings) -> bool:
    """Whether the server answers. Its certificate isn't checked: that it is ours is what the supervisor knows."""
    scheme, context = ("https", ssl._create_unverified_context()) if settings.http_certificate else ("http", None)  # noqa: S323
    address = f"{scheme}://{settings.http_host}:{settings.http_port}/health"
    try:
        with open_here(address, _PROBE_SECONDS, context) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
