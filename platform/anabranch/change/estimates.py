"""Estimate the time and size of a reprocess or a replay from earlier runs of the same view version.

Each published run stores an outcome in the folder of its build; replays have their states. An estimate is made from
the newest ones (``_time_fit``), and says how far such estimates were off. With too few runs, or for a run that is much
larger than all of them, there is none, and the text says why.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from anabranch.change._time_fit import TimeFit, fit
from anabranch.compute.batch.manifest import builds_folder, manifest_path
from anabranch.core.control_file import ControlFile
from anabranch.core.storage import listed
from anabranch.core.text.quantities import counted, duration
from anabranch.lake.layout import VersionRef

NEWEST = 40
"""How many of the newest runs an estimate uses."""
FEWEST = 3
"""With fewer runs there is no estimate: one run can't say which part of its time is fixed."""
JUDGED = 10
"""How many of the newest runs say how far estimates are off."""
_CLOSE = 0.8
"""The share of these runs of which the stated error holds."""
_LARGER = (2.0, 12.0)
"""How many times as large as the largest earlier run a run may be. Within these bounds: as many times as the largest
one is larger than the smallest. So runs of about the same size say nothing of larger ones, and a day and a month say
enough of a year."""
_SUFFIX = ".outcome.json"
STEPS: Final = ("engine", "rebuild", "certify", "publish")
"""What a run's seconds are made of. ``engine``: its start, and that of Airflow's task; ``publish``: that of its task,
too."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The cost of one run: ``seconds`` from the start of its rebuild until readers saw the result, ``bytes`` of data
    files written for ``partitions`` days from ``events``. ``estimated``: the seconds that its plan had estimated (None:
    no estimate). ``steps``: the seconds of each of STEPS; none if a step was repeated."""

    run: str
    partitions: int
    events: int
    seconds: float
    bytes: int
    finished: datetime
    estimated: float | None = None
    steps: Mapping[str, float] = field(default_factory=dict, hash=False)


OUTCOME: Final = ControlFile("outcome of a run", Outcome)


@dataclass(frozen=True, slots=True)
class Estimate:
    """The expected ``seconds`` and ``bytes`` of a future run, from ``runs`` earlier ones; or the ``reason`` why there
    is none.

    ``close`` of the last ``judged`` runs took within ``error`` (relative) of what the runs before each would have
    estimated; None if no run can be judged so.
    """

    seconds: float | None
    bytes: int
    runs: int
    error: float | None = None
    close: int = 0
    judged: int = 0
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        if self.seconds is None:
            return f"no estimate: {self.reason}"
        if self.error is None:
            past = "too few to say by how much that is off"
        elif self.judged == 1:
            past = f"the last one took within {self.error:.0%} of its estimate"
        else:
            past = f"{self.close} of the last {self.judged} took within {self.error:.0%} of their estimates"
        size = f" and {self.bytes / 1e6:,.2f} MB" if self.bytes else ""
        return f"takes about {duration(self.seconds)}{size}, by {self.runs} earlier runs; {past}"


def estimate(
    outcomes: Sequence[Outcome], days: int, events: int, *, named: str = "runs of this version", read: str = "events"
) -> Estimate:
    """Estimate a run over ``days`` and ``events`` from the ``outcomes`` of earlier ones, oldest first. For its text:
    what these runs are, and what they count as events."""
    reason = _why_none(outcomes, days, events, named, read)
    if reason:
        return Estimate(None, 0, len(outcomes), reason=reason)
    counted = sum(o.events for o in outcomes)
    size = round(sum(o.bytes for o in outcomes) / counted * events) if counted else 0
    errors = sorted(_past_errors(outcomes))
    close = math.ceil(_CLOSE * len(errors))
    error = round(errors[close - 1], 3) if errors else None
    return Estimate(round(_seconds(outcomes, days, events), 1), size, len(outcomes), error, close, len(errors))


def step_costs(outcomes: Sequence[Outcome]) -> dict[str, TimeFit]:
    """The fixed part, the part per day and the part per event of each step, by the runs that know their steps; empty if
    these are too few."""
    known = [o for o in outcomes if o.steps]
    if len(known) < FEWEST:
        return {}
    return {step: fit([(o.partitions, o.events, o.steps[step]) for o in known]) for step in STEPS}


def _seconds(outcomes: Sequence[Outcome], days: int, events: int) -> float:
    return fit([(o.partitions, o.events, o.seconds) for o in outcomes]).seconds(days, events)


def _past_errors(outcomes: Sequence[Outcome]) -> list[float]:
    """How far each of the newest runs was from what the runs before it estimate."""
    errors = []
    for number in range(max(FEWEST, len(outcomes) - JUDGED), len(outcomes)):
        before, run = outcomes[:number], outcomes[number]
        if not _why_none(before, run.partitions, run.events):
            said = max(_seconds(before, run.partitions, run.events), 1.0)
            errors.append(abs(run.seconds - said) / said)
    return errors


def _why_none(outcomes: Sequence[Outcome], days: int, events: int, named: str = "", read: str = "") -> str:
    """Say why these runs are no estimate of a run over ``days`` and ``events``; empty if they are one."""
    if len(outcomes) < FEWEST:
        count = len(outcomes)
        there = f"there are {count}" if count > 1 else "there is one" if count else "there is none"
        took = f"; the newest took {_cost(outcomes[-1], read)}" if outcomes else ""
        return f"{FEWEST} earlier {named} are needed, {there}{took}"
    for asked, known, what in (
        (days, [o.partitions for o in outcomes], "days"),
        (events, [o.events for o in outcomes], read),
    ):
        smallest, largest = max(min(known), 1), max(max(known), 1)
        if asked > largest * min(max(largest / smallest, _LARGER[0]), _LARGER[1]):
            top = max(outcomes, key=lambda o: (o.partitions if what == "days" else o.events, o.finished))
            return (
                f"{asked:,} {what} are much more than any of the {len(outcomes)} earlier {named} had; "
                f"the largest took {_cost(top, read)}"
            )
    return ""


def _cost(outcome: Outcome, read: str) -> str:
    return f"{duration(outcome.seconds)} for {counted(outcome.partitions, 'day')} and {outcome.events:,} {read}"


def record_outcome(ref: VersionRef, outcome: Outcome) -> Path:
    """Write the outcome atomically into the folder of its build. A repeat of the run's last step replaces it."""
    path = manifest_path(ref, outcome.run).with_suffix(_SUFFIX)
    return OUTCOME.write(path, outcome)


def outcomes(ref: VersionRef) -> list[Outcome]:
    """Return the outcomes of the newest published runs, newest last. Unreadable files are skipped: estimates don't have
    to be exact; so the wall clock is enough to order them."""
    return [outcome for _, outcome in _newest(ref)]


def outcome_files(ref: VersionRef) -> list[Path]:
    """Return the outcome files of older runs, which estimates no longer use."""
    used = {path for path, _ in _newest(ref)}
    return [path for path in listed(builds_folder(ref), f"*{_SUFFIX}") if path not in used]


def _newest(ref: VersionRef) -> list[tuple[Path, Outcome]]:
    readable = list[tuple[Path, Outcome]]()
    for path in listed(builds_folder(ref), f"*{_SUFFIX}"):
        with suppress(OSError, ValueError):
            if (outcome := OUTCOME.read(path)) is not None:
                readable.append((path, outcome))
    return sorted(readable, key=lambda each: each[1].finished)[-NEWEST:]
