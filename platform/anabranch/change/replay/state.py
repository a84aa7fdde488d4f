"""Where a replay stands, which its own process says, and what people want of it, which any of them may change.

What is there and can't be read is an error, never "no replay": files that it needs would be taken away.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from anabranch.change.replay.rate_limit import DEFAULT_SHARE, Pace
from anabranch.compute.batch.manifest import RUN
from anabranch.core.atomic_files import write_atomically
from anabranch.core.control_objects import change, current, remove
from anabranch.core.errors import BadInput, BrokenState
from anabranch.core.settings import Settings
from anabranch.lake.layout import view_folder

STREAMING: Final = "streaming"
CERTIFYING: Final = "certifying"
PUBLISHING: Final = "publishing"
PUBLISHED: Final = "published"
REFUSED: Final = "refused"
CANCELLED: Final = "cancelled"
ENDED: Final = frozenset({PUBLISHED, REFUSED, CANCELLED})


@dataclass(frozen=True, slots=True)
class ReplayState:
    """``done`` and ``total`` count records of landing; ``event_seconds`` is how much of event time they span, done in
    ``seconds`` of work and rest, ``cpu_seconds`` of all cores together. Times are ms since 1970; ``began_at`` is the
    version that the live table had then, which its own commit is behind. ``equal`` of
    ``partitions`` are certified at ``certified``; ``mended`` rows said something else in the live table. ``bytes`` are
    those of its table, ``estimated`` is how many seconds its plan had said. ``said`` is what there is to know of the
    end."""

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

    @property
    def real_time(self) -> float | None:
        """Seconds of event time in a second; None before there is any."""
        return self.event_seconds / self.seconds if self.seconds and self.event_seconds else None

    @property
    def records_per_second(self) -> float:
        return self.done / self.seconds if self.seconds else 0.0

    @property
    def updated(self) -> datetime:
        return datetime.fromtimestamp(self.updated_ms / 1000, UTC)

    @property
    def ended(self) -> bool:
        return self.phase in ENDED

    def __str__(self) -> str:
        what = f"{self.view} v{self.version}, {self.days or 'the whole view'}: {self.phase}"
        far = f"{self.done:,} of {self.total:,} records" + (f" ({self.done / self.total:.0%})" if self.total else "")
        fast = f", {self.records_per_second:,.0f} a second" if self.seconds else ""
        fast += f", {self.real_time:,.0f} times real time" if self.real_time else ""
        return f"{what}; {far}{fast}; at {self.cut or 'nothing'}" + (f"\n  {self.said}" if self.said else "")

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "real_time": self.real_time, "records_per_second": self.records_per_second}


def write_standing(settings: Settings, standing: ReplayState) -> ReplayState:
    now = replace(standing, updated_ms=int(time.time() * 1000))
    write_atomically(standing_file(settings, now.view, now.version, now.run), json.dumps(asdict(now)))
    return now


def standing_of(settings: Settings, view: str, version: int, run: str) -> ReplayState | None:
    """None: nobody knows of such a replay. BrokenState STANDING_UNREADABLE."""
    return _read(standing_file(settings, view, version, run))


def standings(settings: Settings, view: str, version: int) -> list[ReplayState]:
    """Every replay of one version, the newest one last. BrokenState STANDING_UNREADABLE."""
    files = _folder(settings, view, version).glob("*.json")
    found = [standing for path in files if (standing := _read(path))]
    return sorted(found, key=lambda standing: standing.started_ms)


def cancelled(by: str) -> str:
    return f"cancelled by {by}: nothing was published, and nothing of it is left"


def forget(settings: Settings, standing: ReplayState) -> None:
    """Delete what people wanted of it. How it ended stays, to be read."""
    remove(_wishes(settings, standing))


@dataclass(frozen=True, slots=True)
class ControlRequest:
    """What people want of a running replay; looked at before each slice. ``cancelled_by``: who wants it to end."""

    pace: Pace
    cancelled_by: str = ""


def wish(settings: Settings, standing: ReplayState) -> ControlRequest:
    """What was asked for since it began; the pace that it has where nobody asked for another one. BrokenState
    STANDING_UNREADABLE."""
    path = _wishes(settings, standing)
    try:
        return _wish(standing, current(path)[1])
    except (OSError, ValueError, KeyError, TypeError, BadInput) as error:
        raise _unreadable(path, error) from error


def change_wish(settings: Settings, standing: ReplayState, wanted: Callable[[ControlRequest], ControlRequest]) -> None:
    """Make what was asked for into what ``wanted`` gives for it; of two at once none is lost. BrokenState
    STANDING_UNREADABLE."""

    def made(text: str | None) -> str:
        new = wanted(_wish(standing, text))
        return json.dumps({**asdict(new.pace), "cancelled_by": new.cancelled_by})

    path = _wishes(settings, standing)
    try:
        change(path, made)
    except (ValueError, KeyError, TypeError, BadInput) as error:
        raise _unreadable(path, error) from error


def _wish(standing: ReplayState, text: str | None) -> ControlRequest:
    if text is None:
        return ControlRequest(Pace(standing.share, standing.speed))
    content = json.loads(text)
    return ControlRequest(Pace(float(content["share"]), float(content["speed"])), str(content["cancelled_by"]))


def _folder(settings: Settings, view: str, version: int) -> Path:
    view_folder(settings, view, version)  # checks the names
    return settings.home / "control" / "replays" / view / f"v{version}"


def standing_file(settings: Settings, view: str, version: int, run: str) -> Path:
    """Where it is written down. BadInput RUN_ID."""
    if not RUN.fullmatch(run):
        raise BadInput("RUN_ID", f"{run!r} is no run id", next_step="use a-z, 0-9 and -", field="run")
    return _folder(settings, view, version) / f"{run}.json"


def _wishes(settings: Settings, standing: ReplayState) -> Path:
    return standing_file(settings, standing.view, standing.version, standing.run).with_suffix(".wish")


def _read(path: Path) -> ReplayState | None:
    try:
        return ReplayState(**json.loads(path.read_text()))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> BrokenState:
    return BrokenState(
        "STANDING_UNREADABLE",
        f"{path} can't be read: {error}",
        state="it counts as a replay that has not ended: nothing that it may need is taken away",
        next_step="put it back from a copy; or delete it, and what anabranch doctor then says is left of the replay",
        file=str(path),
    )
