"""Estimate the time and size of a reprocess from earlier runs of the same view version.

Each published run stores an outcome in the folder of its build. An estimate is a linear fit of the newest outcomes: a
fixed part (starting Spark twice is most of a small run) plus a part per event. It is the Theil-Sen estimator (median of
all slopes), so one run on a busy machine doesn't distort it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import Any

from anabranch.compute.batch.manifest import builds_folder, manifest_path
from anabranch.core.atomic_files import write_atomically
from anabranch.core.settings import Settings

NEWEST = 40
"""How many of the newest runs an estimate uses."""
_SUFFIX = ".outcome.json"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The cost of one run: ``seconds`` from its start until readers saw the result, ``bytes`` of data files written for
    ``partitions`` days from ``events``. ``estimated``: the seconds that its plan had estimated (None: no estimate)."""

    run: str
    partitions: int
    events: int
    seconds: float
    bytes: int
    finished: datetime
    estimated: float | None = None


@dataclass(frozen=True, slots=True)
class Estimate:
    """The expected ``seconds`` and ``bytes`` of a future run, from ``runs`` earlier ones. ``error``: the median
    relative error of their own estimates (None if none had one)."""

    seconds: float
    bytes: int
    runs: int
    error: float | None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        past = f", whose own estimates were off by {self.error:.0%}" if self.error is not None else ""
        runs = "1 earlier run" if self.runs == 1 else f"{self.runs} earlier runs"
        return f"about {_time(self.seconds)} and {self.bytes / 1e6:,.2f} MB, by {runs}{past}"


def estimate(outcomes: Sequence[Outcome], events: int) -> Estimate | None:
    """Estimate a run over ``events``. Returns None if there is no earlier run.

    If all earlier runs read the same number of events, time is assumed to be proportional for more events.
    """
    if not outcomes:
        return None
    seconds = _seconds(outcomes, events)
    read = sum(o.events for o in outcomes)
    size = round(sum(o.bytes for o in outcomes) / read * events) if read else 0
    errors = [abs(o.estimated - o.seconds) / o.seconds for o in outcomes if o.estimated is not None and o.seconds > 0]
    return Estimate(round(seconds, 1), size, len(outcomes), round(median(errors), 3) if errors else None)


def _seconds(outcomes: Sequence[Outcome], events: int) -> float:
    pairs = [(a, b) for a, b in combinations(outcomes, 2) if a.events != b.events]
    if not pairs:
        known = outcomes[0].events
        return median(o.seconds for o in outcomes) * (max(events / known, 1.0) if known else 1.0)
    each = max(0.0, median((b.seconds - a.seconds) / (b.events - a.events) for a, b in pairs))
    fixed = max(0.0, median(o.seconds - each * o.events for o in outcomes))
    return fixed + each * events


def record_outcome(settings: Settings, view: str, version: int, outcome: Outcome) -> Path:
    """Write the outcome atomically into the folder of its build. A repeat of the run's last step replaces it."""
    path = manifest_path(settings, view, version, outcome.run).with_suffix(_SUFFIX)
    return write_atomically(path, json.dumps(asdict(outcome) | {"finished": outcome.finished.isoformat()}))


def outcomes(settings: Settings, view: str, version: int) -> list[Outcome]:
    """Return the outcomes of the newest published runs, newest last. Unreadable files are skipped: estimates don't have
    to be exact."""
    readable = []
    for path in builds_folder(settings, view, version).glob(f"*{_SUFFIX}"):
        try:
            content = json.loads(path.read_text())
            readable.append(Outcome(**content | {"finished": datetime.fromisoformat(content["finished"])}))
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return sorted(readable, key=lambda outcome: outcome.finished)[-NEWEST:]


def outcome_files(settings: Settings, view: str, version: int) -> list[Path]:
    """Return the outcome files of older runs, which estimates no longer use."""
    files = builds_folder(settings, view, version).glob(f"*{_SUFFIX}")
    return sorted(files, key=lambda path: path.stat().st_mtime)[:-NEWEST]


def _time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
