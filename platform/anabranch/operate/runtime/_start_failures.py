"""The errors of a start that fails: what is left running, and what to do."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from anabranch.core.errors import BrokenState, Conflict
from anabranch.core.settings import Settings
from anabranch.operate.runtime import process_registry
from anabranch.operate.runtime.process_registry import SUPERVISOR, Record

_STOP_SECONDS: Final = 1.0
"""`anabranch down` removes the supervisor's record this soon after it has ended it."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """What an error says after a part didn't start: the state of the platform, and what to do."""

    state: str
    then: str


STOPPED: Final = Outlook("everything that this start had started is stopped", "then anabranch up")
TRIED_AGAIN: Final = Outlook(
    "the other parts run, and this one is started again and again",
    "fix the error above; the part is started again by itself",
)
UNWATCHED: Final = Outlook(
    "what lives goes on without a supervisor, and nothing is started again", "then anabranch down and anabranch up"
)


def check_supervisor(settings: Settings, found: Mapping[str, Record], outlook: Outlook) -> None:
    """Raises Conflict PLATFORM_STOPPED if `anabranch down` has ended the supervisor, and BrokenState PART_FAILED if it
    has ended otherwise."""
    if SUPERVISOR in found and found[SUPERVISOR].process():
        return
    if SUPERVISOR in found:
        time.sleep(_STOP_SECONDS)
    if SUPERVISOR not in process_registry.read(settings):
        raise Conflict(
            "PLATFORM_STOPPED",
            "anabranch down has stopped the platform meanwhile",
            state="what ran of it is stopped, or is being stopped",
            next_step="anabranch up",
        )
    raise failed(SUPERVISOR, "it ended", settings.logs / f"{SUPERVISOR}.log", outlook)


def failed(name: str, reason: str, log: Path, outlook: Outlook) -> BrokenState:
    """The error PART_FAILED, with the end of the part's log."""
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    # Stack frames would push the message itself out of sight.
    messages = [line for line in lines if not line.lstrip().startswith(("at ", "...", "File "))][-8:]
    last = "".join(f"\n    {line[:200]}" for line in messages)
    return BrokenState(
        "PART_FAILED",
        f"{name} did not start: {reason}{last}",
        state=outlook.state,
        next_step=f"read {log}, {outlook.then}",
        part=name,
        log=str(log),
    )
