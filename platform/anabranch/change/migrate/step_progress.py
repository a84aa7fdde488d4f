"""Progress of a migration's newest step: whether all its readers can follow to the new version, and since when.

The readers' versions are in the view's route alone (ADR 0016). These observations belong to one route, by its number.
If they are lost, they are made again, and the step only takes longer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from anabranch.core.clocks import Moment
from anabranch.core.control_file import ControlFile
from anabranch.core.control_objects import remove
from anabranch.core.errors import BrokenState
from anabranch.core.settings import Settings
from anabranch.core.storage import listed
from anabranch.lake.cut import Cut
from anabranch.lake.layout import safe_name


@dataclass(frozen=True, slots=True)
class StepProgress:
    """``follow``: the cut of the version that readers leave, read after the route was set, so that no reader has seen a
    newer one. ``reached``: when the other version covered that cut, so that all readers get it. ``unchecked``: since
    when a check can't run."""

    follow: Cut | None = None
    reached: Moment | None = None
    unchecked: Moment | None = None


def _first_format(content: dict[str, Any]) -> dict[str, Any]:
    """Moments were pairs."""
    moments = {name: content[name] for name in ("reached", "unchecked")}
    pairs = {name: {"boot": pair[0], "seconds": pair[1]} if pair else None for name, pair in moments.items()}
    return {**content, **pairs}


STEP: Final = ControlFile("progress of a migration's step", StepProgress, (_first_format,))


def step_progress(settings: Settings, view: str, number: int) -> StepProgress:
    """Read the progress of the step that route ``number`` set. Raises BrokenState PROGRESS_UNREADABLE."""
    path = _path(settings, view, number)
    try:
        return STEP.current(path) or StepProgress()
    except (OSError, ValueError) as error:
        raise BrokenState(
            "PROGRESS_UNREADABLE",
            f"{path} can't be read: {error}",
            state="no step is taken; readers keep their versions",
            next_step=f"delete {path}.*: the step's soak time then starts again",
            file=str(path),
        ) from error


def observe(settings: Settings, view: str, number: int, **observed: Any) -> StepProgress:
    """Add observations to a step's progress. ``follow`` is set once and then kept, and so is ``reached`` until the
    machine restarts; ``unchecked`` is replaced, and may be None."""

    def merge(known: StepProgress) -> StepProgress:
        kept: dict[str, Any] = {"follow": known.follow} if known.follow is not None else {}
        if is_of_this_boot(known.reached):
            kept["reached"] = known.reached
        return replace(known, **{**observed, **kept})

    known = step_progress(settings, view, number)
    if merge(known) == known:
        return known
    return STEP.change(_path(settings, view, number), lambda found: merge(found or StepProgress()))


def is_of_this_boot(moment: Moment | None) -> bool:
    """Whether the time since ``moment`` can be told: the machine hasn't restarted since, and it is the same one."""
    return moment is not None and moment.age() is not None


def forget(settings: Settings, view: str, before: int) -> None:
    """Delete the progress of steps before route ``before``."""
    folder = _path(settings, view, before).parent
    numbers = {name for path in listed(folder) if (name := path.name.split(".")[0]).isdecimal()}
    for number in sorted(map(int, numbers)):
        if number < before:
            remove(_path(settings, view, number))


def _path(settings: Settings, view: str, number: int) -> Path:
    return settings.home / "control" / "migrations" / safe_name(view, "view") / str(number)
