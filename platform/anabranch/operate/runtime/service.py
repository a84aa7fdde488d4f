"""A part of the platform as data: what is started, when it is ready, and what happens when it ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from signal import SIGTERM, Signals


class Restart(StrEnum):
    """What the end of a part's process means."""

    ALWAYS = "always"
    """It should not have ended: it is started again after 1, 2, 4 ... 30 s (from 1 s again once it ran for 60 s)."""
    ONCE = "once"
    """A step: done when it ended with 0, tried again after the same pauses when it ended with anything else."""


def nothing() -> None:
    """No preparation, nothing to note."""


def always(_: float = 0.0) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Service:
    """One process of the platform.

    The functions are called by the supervisor, in its own process. Each must be safe to repeat: after any
    crash they are simply called again.
    """

    name: str
    command: tuple[str, ...]
    cwd: Path
    log: Path
    env: Mapping[str, str] = field(default_factory=dict)
    inherits: bool = True
    """Whether it gets the variables of whoever has started the platform, too: passwords of others may be among them."""
    user: str | None = None
    """The system user that it runs as, when that isn't our own (Postgres refuses to run as root)."""
    needed: Callable[[], bool] = always
    """Asked before a step is started: no when it was done before."""
    prepare: Callable[[], None] = nothing
    """Called before every start of the process."""
    ready: Callable[[float], bool] = always
    """Asked again and again with the seconds since the start, by a clock that nobody sets; answers within seconds, says
    no while it isn't up."""
    ails: Callable[[int], str] | None = None
    """Asked every few seconds while the process of this number runs: why it has to be started again although it lives,
    in words; empty where nothing is wrong."""
    finish: Callable[[], None] = nothing
    """Called when a step has ended with 0."""
    depends_on: tuple[str, ...] = ()
    ports: Mapping[str, int] = field(default_factory=dict)
    """The loopback ports that it listens on, by the environment variable that changes each."""
    restart: Restart = Restart.ALWAYS
    stop_signal: Signals = SIGTERM
    grace: float = 15.0
    """Seconds from the stop signal to SIGKILL."""
    start_timeout: float = 120.0
    """Seconds after which a process that isn't ready is killed and started again."""

    @property
    def port(self) -> int | None:
        """The port that others connect to: the first."""
        return next(iter(self.ports.values()), None)


def depths(parts: tuple[Service, ...]) -> dict[str, int]:
    """How far each part stands from the parts that need nothing; parts of one depth start and stop side by side.

    A dependency that is not among ``parts`` is taken as running elsewhere.
    """
    known = {part.name: part for part in parts}

    def depth(name: str) -> int:
        return 1 + max((depth(d) for d in known[name].depends_on if d in known), default=-1)

    return {name: depth(name) for name in known}
