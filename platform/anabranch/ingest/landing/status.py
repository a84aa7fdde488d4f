"""The status file of landing: the halted topics and their errors, for `anabranch status`; replaced atomically."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from anabranch.core.control_file import ControlFile
from anabranch.core.errors import AnabranchError
from anabranch.core.settings import Settings


@dataclass(frozen=True, slots=True)
class HaltedTopic:
    code: str
    error: str


@dataclass(frozen=True, slots=True)
class LandingStatus:
    """The halted topics by name."""

    halted: Mapping[str, HaltedTopic] = field(hash=False)


STATUS: Final = ControlFile("status of landing", LandingStatus)
_FILE = "landing-halted.json"


def write(settings: Settings, halted: Mapping[str, AnabranchError]) -> None:
    """Replace the file: exactly these topics are halted now."""
    topics = {topic: HaltedTopic(error.code, str(error)) for topic, error in halted.items()}
    STATUS.write(settings.run / _FILE, LandingStatus(topics))


def read(settings: Settings) -> dict[str, str]:
    """The error code of each halted topic; empty before landing has run."""
    try:
        found = STATUS.read(settings.run / _FILE)
    except (OSError, ValueError):
        return {}
    return {topic: entry.code for topic, entry in found.halted.items()} if found is not None else {}
