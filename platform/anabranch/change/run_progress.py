"""Progress of a run's work on days: which step, how many days are written, how long it still takes.

For people only. The job writes one small file, which is deleted when the job ends; nothing depends on it. Replays have
``change.replay.state`` instead.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from anabranch.change.replay.state import list_states
from anabranch.compute.batch.manifest import builds_folder, manifest_path
from anabranch.core.control_file import ControlFile
from anabranch.core.errors import AnabranchError
from anabranch.core.settings import Settings
from anabranch.core.storage import listed, storage_of
from anabranch.core.text.quantities import counted, duration
from anabranch.lake.layout import VersionRef, versions_below

REBUILD: Final = "rebuild"
RECONCILE: Final = "reconcile"
_SUFFIX: Final = ".progress.json"
_SILENT_SECONDS: Final = 60.0
"""A job writes every few seconds: one that has written nothing for so long was killed, or its machine hangs."""
_REPLAY_SILENT_SECONDS: Final = 3_600.0
"""A replay writes behind each slice and each step; with a small share of the cores it pauses long between them."""


@dataclass(frozen=True, slots=True)
class RunProgress:
    """``written`` of ``days`` (0: the whole of a kappa view) are written, from ``events``. ``tasks`` of ``all_tasks``
    Spark tasks of the stages that run now have ended. ``estimated``: the expected seconds of the whole run (None: no
    estimate). Times are Unix seconds; ``began``: of the job."""

    view: str
    version: int
    run: str
    step: str
    days: int
    events: int
    began: float
    written: int = 0
    tasks: int = 0
    all_tasks: int = 0
    estimated: float | None = None
    updated: float = 0.0

    @property
    def left(self) -> float | None:
        """The seconds until the run's end, by its estimate; None without one, or when the run has taken longer."""
        left = (self.estimated or 0.0) - (self.updated - self.began)
        return left if left > 0 else None

    def __str__(self) -> str:
        days = counted(self.days, "day") if self.days else "the whole view"
        what = f"{self.written:,} of {days} written" if self.step == REBUILD else days
        tasks = f", {self.tasks:,} of {self.all_tasks:,} Spark tasks of this stage" if self.all_tasks else ""
        if self.left is not None:
            left = f"about {duration(self.left)} left"
        elif self.estimated is not None:
            left = f"longer than estimated ({duration(self.estimated)})"
        else:
            left = "too few earlier runs to say how long it takes"
        took = duration(self.updated - self.began)
        return f"{self.step}: {what}, {self.events:,} events{tasks}; for {took}, {left}"


PROGRESS: Final = ControlFile("progress of a run", RunProgress)


def write_progress(settings: Settings, progress: RunProgress) -> None:
    PROGRESS.write(_file(VersionRef(settings, progress.view, progress.version), progress.run), progress)


def read_progress(ref: VersionRef, run: str) -> RunProgress | None:
    """Return the progress of a run's job; None if the job doesn't run, or hasn't written for a minute."""
    return _read(_file(ref, run))


def delete_progress(settings: Settings, progress: RunProgress) -> None:
    path = _file(VersionRef(settings, progress.view, progress.version), progress.run)
    storage_of(path).remove(path)


def progress_text(ref: VersionRef, run: str) -> str:
    """Return the progress of a run that rebuilds or replays; empty if none is known."""
    return dict(work_of(ref)).get(run, "")


def work_of(ref: VersionRef) -> Iterator[tuple[str, str]]:
    """Yield the name and the progress of each run that rebuilds or replays a version now."""
    try:
        files, replays = progress_files(ref), list_states(ref)
    except AnabranchError:  # a torn state, which the replays' page shows
        return
    for path in files:
        if (found := _read(path)) is not None:
            yield found.run, str(found)
    for state in replays:
        silent = time.time() - state.updated_ms / 1000
        if not state.ended and silent < _REPLAY_SILENT_SECONDS:
            heard = f", last heard of {duration(silent)} ago" if silent > _SILENT_SECONDS else ""
            yield state.run, f"replay: {state.progress}{heard}"


def all_work(settings: Settings) -> Iterator[tuple[str, int, str, str]]:
    """Yield the view, version, run and progress of each run that rebuilds or replays now."""
    control = settings.home / "control"
    for ref in versions_below(settings, control / "builds", control / "replays"):
        yield from ((ref.name, ref.version, run, text) for run, text in work_of(ref))


def progress_files(ref: VersionRef) -> list[Path]:
    """Return the files of jobs that were killed, and of those that run."""
    return listed(builds_folder(ref), f"*{_SUFFIX}")


def _file(ref: VersionRef, run: str) -> Path:
    return manifest_path(ref, run).with_suffix(_SUFFIX)


def _read(path: Path) -> RunProgress | None:
    try:
        found = PROGRESS.read(path)
    except (OSError, ValueError):
        return None
    return found if found is not None and time.time() - found.updated < _SILENT_SECONDS else None
