"""The stored state of a replay, written by its own process, and its control file, which anybody may change.

A state that can't be read is an error, never "no replay": otherwise files that the replay needs would be deleted.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from anabranch.change.replay.rate_limit import DEFAULT_SHARE, Pace
from anabranch.compute.batch.manifest import parse_days, run_file
from anabranch.core.control_file import ControlFile
from anabranch.core.control_objects import remove
from anabranch.core.errors import BadInput, BrokenState
from anabranch.core.settings import Settings
from anabranch.core.storage import listed, storage_of
from anabranch.core.text.quantities import duration
from anabranch.lake.layout import VersionRef

STREAMING: Final = "streaming"
CERTIFYING: Final = "certifying"
PUBLISHING: Final = "publishing"
PUBLISHED: Final = "published"
REFUSED: Final = "refused"
CANCELLED: Final = "cancelled"
ENDED: Final = frozenset({PUBLISHED, REFUSED, CANCELLED})


@dataclass(frozen=True, slots=True)
class ReplayState:
    """The progress of a replay.

    ``done`` and ``total`` count records of landing. ``event_seconds``: the event time that the done ones span;
    ``seconds``: work and pauses; ``cpu_seconds``: over all cores. Times in ms are since 1970. ``began_at``: the live
    table's version at the start; the replay's own commit is later. ``equal`` of ``partitions`` are equal at the cut
    ``certified``. ``mended``: how many rows were different in the live table. ``bytes``: the size of its table.
    ``estimated``: the seconds that its plan estimated. ``said``: a text about its end. ``number`` counts the replays of
    the version, from 1: it says which one is the newest, not a clock. ``newest_day``: of the newest event that
    was read, like 2013-01-31."""

    view: str
    version: int
    run: str
    phase: str = STREAMING
    days: str = ""
    cut: str = ""
    done: int = 0
    total: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    event_seconds: float = 0.0
    share: float = DEFAULT_SHARE
    speed: float = 0.0
    partitions: int = 0
    equal: int = 0
    mended: int = 0
    certified: str = ""
    bytes: int = 0
    estimated: float | None = None
    said: str = ""
    started_ms: int = 0
    updated_ms: int = 0
    began_at: int = 0
    number: int = 0
    newest_day: str = ""

    @property
    def real_time(self) -> float | None:
        """Seconds of event time per second; None before any event time has passed."""
        return self.event_seconds / self.seconds if self.seconds and self.event_seconds else None

    @property
    def records_per_second(self) -> float:
        return self.done / self.seconds if self.seconds else 0.0

    @property
    def cores_used(self) -> float:
        """The share of this machine's cores that it has used so far, pauses included."""
        return self.cpu_seconds / self.seconds / (os.cpu_count() or 1) if self.seconds else 0.0

    @property
    def updated(self) -> datetime:
        return datetime.fromtimestamp(self.updated_ms / 1000, UTC)

    @property
    def ended(self) -> bool:
        return self.phase in ENDED

    @property
    def left(self) -> float | None:
        """The seconds until it has read all that has landed, at its speed so far; None before its first slice, and in
        the phases behind it."""
        if self.phase != STREAMING or not self.records_per_second:
            return None
        return max(0, self.total - self.done) / self.records_per_second

    @property
    def days_passed(self) -> tuple[int, int] | None:
        """How many of its days are before the newest event that it has read, and how many it has; None for a replay of
        the whole view."""
        if not self.days or not self.newest_day:
            return None
        days = parse_days(self.days)
        return sum(day.isoformat() < self.newest_day for day in days), len(days)

    @property
    def progress(self) -> str:
        """Its phase and how far it is, in one line."""
        done = f"{self.done:,} of {self.total:,} records" + (f" ({self.done / self.total:.0%})" if self.total else "")
        rate = f", {self.records_per_second:,.0f} per second" if self.seconds else ""
        rate += f", {self.real_time:,.0f} times real time" if self.real_time else ""
        if not self.ended:
            passed = self.days_passed
            rate += f", {passed[0]:,} of {passed[1]:,} days" if passed else ""
            rate += f", events up to {self.newest_day}" if self.newest_day else ""
            rate += f", about {duration(self.left)} left" if self.left is not None else ""
            # It has the lowest priority: while other work keeps the cores busy it gets far less than it may use.
            rate += f", using {self.cores_used:.0%} of the cores (at most {self.share:.0%})" if self.cpu_seconds else ""
        return f"{self.phase}; {done}{rate}"

    def __str__(self) -> str:
        what = f"{self.view} v{self.version}, {self.days or 'the whole view'}"
        return f"{what}: {self.progress}; at {self.cut or 'no cut yet'}" + (f"\n  {self.said}" if self.said else "")

    def to_json(self) -> dict[str, Any]:
        return {
            **asdict(self),
            "real_time": self.real_time,
            "records_per_second": self.records_per_second,
            "seconds_left": self.left,
        }


STATE: Final = ControlFile("state of a replay", ReplayState)


def write_state(settings: Settings, state: ReplayState) -> ReplayState:
    """Store the state with the current time, and return it."""
    now = replace(state, updated_ms=int(time.time() * 1000))
    STATE.write(state_file(VersionRef(settings, now.view, now.version), now.run), now)
    return now


def read_state(ref: VersionRef, run: str) -> ReplayState | None:
    """Return the state of one replay; None if there is no such replay. Raises BrokenState STANDING_UNREADABLE."""
    return _read(state_file(ref, run))


def list_states(ref: VersionRef) -> list[ReplayState]:
    """Return the states of all replays of one version, newest last. Raises BrokenState STANDING_UNREADABLE."""
    files = listed(_folder(ref), "*.json")
    states = [state for path in files if not path.name.endswith(_FIRST_SUFFIX) and (state := _read(path))]
    # States from before they were numbered come first, by the clock.
    return sorted(states, key=lambda state: (state.number, state.started_ms))


def cancelled_text(by: str) -> str:
    return f"cancelled by {by}: nothing was published, and its files are deleted"


def delete_control(settings: Settings, state: ReplayState) -> None:
    """Delete the replay's control file. Its state stays."""
    remove(path := _control_file(settings, state))
    storage_of(path).remove(path.with_suffix(_FIRST_SUFFIX))


def has_control(settings: Settings, state: ReplayState) -> bool:
    """Whether the replay's control file still exists."""
    path = _control_file(settings, state)
    return bool(listed(path.parent, f"{path.name}.*"))


@dataclass(frozen=True, slots=True)
class ControlRequest:
    """What people ask of a running replay; it is read before each slice. ``cancelled_by``: who cancelled it, or ''."""

    pace: Pace
    cancelled_by: str = ""


def _first_format(content: dict[str, Any]) -> dict[str, Any]:
    pace = {"share": content["share"], "speed": content["speed"]}
    return {"pace": pace, "cancelled_by": content["cancelled_by"]}


_FIRST_SUFFIX: Final = ".wish.json"
CONTROL: Final = ControlFile("control request of a replay", ControlRequest, (_first_format,))


def read_control(settings: Settings, state: ReplayState) -> ControlRequest:
    """Return what people have asked for since the replay began; by default its own pace. Raises BrokenState
    STANDING_UNREADABLE."""
    path = _control_file(settings, state)
    try:
        return CONTROL.current(path) or _first_request(path) or _unchanged(state)
    except (OSError, ValueError, BadInput) as error:
        raise _unreadable(path, error) from error


def update_control(settings: Settings, state: ReplayState, update: Callable[[ControlRequest], ControlRequest]) -> None:
    """Atomically replace the control request by ``update`` of it; no concurrent update is lost. Raises BrokenState
    STANDING_UNREADABLE."""
    path = _control_file(settings, state)
    try:
        CONTROL.change(path, lambda known: update(known or _first_request(path) or _unchanged(state)))
    except (ValueError, BadInput) as error:
        raise _unreadable(path, error) from error


def _first_request(path: Path) -> ControlRequest | None:
    """What was asked for while a request was one file that was replaced, not numbered ones. Raises as ``read``."""
    return CONTROL.read(path.with_suffix(_FIRST_SUFFIX))


def _unchanged(state: ReplayState) -> ControlRequest:
    return ControlRequest(Pace(state.share, state.speed))


def _folder(ref: VersionRef) -> Path:
    return ref.settings.home / "control" / "replays" / ref.name / f"v{ref.version}"


def state_file(ref: VersionRef, run: str) -> Path:
    """Return the file of a replay's state. Raises BadInput RUN_ID."""
    return run_file(_folder(ref), run)


def _control_file(settings: Settings, state: ReplayState) -> Path:
    return state_file(VersionRef(settings, state.view, state.version), state.run).with_suffix(".wish")


def _read(path: Path) -> ReplayState | None:
    try:
        return STATE.read(path)
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> BrokenState:
    return BrokenState(
        "STANDING_UNREADABLE",
        f"{path} can't be read: {error}",
        state="it counts as a replay that has not ended: no file that it may need is deleted",
        next_step="restore it from a copy; or delete it, and the replay's files that anabranch doctor then reports",
        file=str(path),
    )
