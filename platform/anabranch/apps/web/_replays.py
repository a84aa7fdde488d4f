"""The replays of a view, with their progress and pace."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from anabranch.apps.web._failures import Failure, attempt
from anabranch.change.replay.rate_limit import Pace
from anabranch.change.replay.state import ReplayState, list_states, read_control
from anabranch.core.settings import Settings
from anabranch.lake.layout import VersionRef

SHOWN = 50
"""Maximum number of replays listed per version, newest first."""


@dataclass(frozen=True, slots=True)
class Replay:
    """A replay, and its pace from the next slice on; ``ends``: a person has cancelled it."""

    standing: ReplayState
    pace: Pace
    ends: bool

    @property
    def percent(self) -> int:
        now = self.standing
        return round(100 * now.done / now.total) if now.total else 0

    @property
    def started(self) -> datetime:
        return datetime.fromtimestamp(self.standing.started_ms / 1000, UTC)


def replays_of(ref: VersionRef) -> list[Replay] | Failure:
    """Returns the replays of a version, newest first."""

    def found() -> list[Replay]:
        return [_replay(ref.settings, standing) for standing in reversed(list_states(ref)[-SHOWN:])]

    return attempt(f"replays of {ref}", found)


def _replay(settings: Settings, standing: ReplayState) -> Replay:
    wanted = read_control(settings, standing)
    return Replay(standing, wanted.pace, bool(wanted.cancelled_by))
