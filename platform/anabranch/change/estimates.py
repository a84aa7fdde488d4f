"""How long a reprocess takes and how much it writes, by what earlier runs of the same view version took.

Each run that came to its publication leaves an outcome beside its build. An estimate is a straight line through the
newest of them: a fixed part (starting Spark twice is most of a small run) and a part for each event (Theil and Sen: the
median of all slopes, which one run on a busy machine doesn't move).
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
"""How many runs an estimate is made from."""
_SUFFIX = ".outcome.json"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one run took: ``seconds`` from its start until readers saw it, ``bytes`` of data files that it wrote for
    ``partitions`` days from ``events``; ``estimated`` is what its plan had said of the seconds (None: nothing)."""

    run: str
    partitions: int
    events: int
    seconds: float
    bytes: int
    finished: datetime
    estimated: float | None = None


@dataclass(frozen=True, slots=True)
class Estimate:
    """``seconds`` and ``bytes`` of a run to come, from ``runs`` earlier ones. ``error``: by which part of the true time
    their own estimates were wrong (median; None where none had one)."""

    seconds: float
    bytes: int
    runs: int
    error: float | None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        past = f", which their own estimates missed by {self.error:.0%}" if self.error is not None else ""
        runs = "1 earlier run" if self.runs == 1 else f"{self.runs} earlier runs"
        return f"about {_time(self.seconds)} and {self.bytes / 1e6:,.2f} MB, by {runs}{past}"


def estimate(outcomes: Sequence[Outcome], events: int) -> Estimate | None:
    """What a run over ``events`` will take; None where there is no earlier run to go by.

    Where all earlier runs read equally many events, more of them are taken to need as much more time.
    """
    if not outcomes:
        return None
    seconds = _seconds(outcomes, events)
    read = sum(o.events for o in outcomes)
    size = round(sum(o.bytes for o in outcomes) / read * events) if read else 0
    missed = [abs(o.estimated - o.seconds) / o.seconds for o in outcomes if o.estimated is not None and o.seconds > 0]
    return Estimate(round(seconds, 1), size, len(outcomes), round(median(missed), 3) if missed else None)


def _seconds(outcomes: Sequence[Outcome], events: int) -> float:
    pairs = [(a, b) for a, b in combinations(outcomes, 2) if a.events != b.events]
    if not pairs:
        known = outcomes[0].events
        return median(o.seconds for o in outcomes) * (max(events / known, 1.0) if known else 1.0)
    each = max(0.0, median((b.seconds - a.seconds) / (b.events - a.events) for a, b in pairs))
    fixed = max(0.0, median(o.seconds - each * o.events for o in outcomes))
    return fixed + each * events


def record_outcome(settings: Settings, view: str, version: int, outcome: Outcome) -> Path:
    """Keep it beside the build of its run, in one step; a repeat of the run's last step replaces it."""
    path = manifest_path(settings, view, version, outcome.run).with_suffix(_SUFFIX)
    return write_atomically(path, json.dumps(asdict(outcome) | {"finished": outcome.finished.isoformat()}))


def outcomes(settings: Settings, view: str, version: int) -> list[Outcome]:
    """The newest runs that were published, newest last. What can't be read is left out: an estimate is no truth."""
    found = []
    for path in builds_folder(settings, view, version).glob(f"*{_SUFFIX}"):
        try:
            content = json.loads(path.read_text())
            found.append(Outcome(**content | {"finished": datetime.fromisoformat(content["finished"])}))
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return sorted(found, key=lambda outcome: outcome.finished)[-NEWEST:]


def outcome_files(settings: Settings, view: str, version: int) -> list[Path]:
    """The files of older runs, which no estimate is made from."""
    found = builds_folder(settings, view, version).glob(f"*{_SUFFIX}")
    return sorted(found, key=lambda path: path.stat().st_mtime)[:-NEWEST]


def _time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
