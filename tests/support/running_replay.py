"""A replay of the landed history in a process of its own, slow enough to be found in the middle of its work."""

from __future__ import annotations

from anabranch.change.replay.state import STREAMING, ReplayState, read_state
from anabranch.core.settings import Settings
from anabranch.lake.layout import VersionRef

from support.landed_history import DELAYS
from support.processes import eventually
from support.real_programs import Process

HALF = "0.5"
"""Of the cores: it rests behind its slice of history, and is found there."""


def replay(run: str) -> list[str]:
    given = {"view": DELAYS.name, "version": "1", "run": run, "share": HALF}
    return [text for name, value in given.items() for text in (f"--{name}", value)]


def standing(settings: Settings, run: str) -> ReplayState | None:
    return read_state(VersionRef(settings, DELAYS.name, 1), run)


def in_the_middle(settings: Settings, run: str, of: Process) -> ReplayState:
    def found() -> ReplayState | None:
        assert of.popen.poll() is None, of.said[-2_000:]
        now = standing(settings, run)
        return now if now is not None and now.phase == STREAMING and now.done else None

    now: ReplayState = eventually(found, 60)
    return now
