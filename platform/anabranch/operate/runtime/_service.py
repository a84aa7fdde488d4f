"""Describes a service as data: what is started, when it is ready, and what happens when it ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from signal import SIGTERM, Signals


class Restart(StrEnum):
    """What to do when a service's process ends."""

    ALWAYS = "always"
    """Restart it after 1, 2, 4 ... 30 s (from 1 s again after it was ready for 60 s)."""
    ONCE = "once"
    """A one-time step: done if it ends with 0; otherwise retried with the same pauses."""


def nothing() -> None:
    """Default for ``prepare`` and ``finish``."""


def always(_: float = 0.0) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Service:
    """One process of the platform.

    The supervisor calls the functions in its own process. Each must be idempotent: after a crash they are called again.
    """

    name: str
    command: tuple[str, ...]
    cwd: Path
    log: Path
    env: Mapping[str, str] = field(default_factory=dict)
    """Its whole environment: it gets nothing of the process that started the platform."""
    user: str | None = None
    """The system user that runs it, if not our own (Postgres refuses to run as root)."""
    needed: Callable[[], bool] = always
    """Called before a one-time step is started; False if it was done before."""
    prepare: Callable[[], None] = nothing
    """Called before every start of the process."""
    ready: Callable[[float], bool] = always
    """Readiness probe. Called repeatedly with the seconds since the start, by a monotonic clock. Must return within
    seconds."""
    unhealthy_reason: Callable[[int], str] | None = None
    """Health check. Called every few seconds with the pid while the process runs. Returns why a running process must be
    restarted, or ""."""
    finish: Callable[[], None] = nothing
    """Called when a one-time step has ended with 0."""
    depends_on: tuple[str, ...] = ()
    ports: Mapping[str, int] = field(default_factory=dict)
    """The loopback ports that it listens on, keyed by the environment variable that sets each."""
    host: str = "127.0.0.1"
    """The address that it listens on at its first port."""
    restart: Restart = Restart.ALWAYS
    stop_signal: Signals = SIGTERM
    children_first: bool = False
    """Whether it is suspended while its children are stopped, and gets the stop signal when they have ended."""
    grace: float = 15.0
    """Seconds from the stop signal to SIGKILL."""
    start_timeout: float = 120.0
    """Seconds after which a process that isn't ready is stopped and restarted."""

    @property
    def port(self) -> int | None:
        """The port that clients connect to: the first."""
        return next(iter(self.ports.values()), None)


def depths(parts: tuple[Service, ...]) -> dict[str, int]:
    """Returns each service's depth in the dependency graph. Services of the same depth start and stop in parallel.

    A dependency that is not among ``parts`` is assumed to run elsewhere.
    """
    known = {part.name: part for part in parts}

    def depth(name: str) -> int:
        return 1 + max((depth(d) for d in known[name].depends_on if d in known), default=-1)

    return {name: depth(name) for name in known}
