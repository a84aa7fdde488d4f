"""What a benchmark finds out: tables, targets and notes, as data that can be kept and rendered later."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any


@dataclass(frozen=True, slots=True)
class Sample:
    """One run of one job: its seconds on the wall, and what parts of it took."""

    seconds: float
    stages: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Table:
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Target:
    """One promise. ``value`` is what was measured, ``limit`` what it should be at least (or at most), in ``unit``."""

    what: str
    value: float
    limit: float
    at_least: bool
    unit: str = ""

    @property
    def met(self) -> bool:
        return self.value >= self.limit if self.at_least else self.value <= self.limit

    @property
    def verdict(self) -> str:
        """``met``, or by how much it is missed."""
        return "met" if self.met else f"**missed by {abs(self.value / self.limit - 1):.0%}**"


@dataclass(frozen=True, slots=True)
class Report:
    """One benchmark's result. ``samples`` are the seconds of every run, by job, so that others can judge the spread."""

    name: str
    title: str
    what: str
    tables: tuple[Table, ...]
    targets: tuple[Target, ...] = ()
    notes: tuple[str, ...] = ()
    samples: Mapping[str, Sequence[float]] = field(default_factory=dict)
    when: str = ""
    load: float = 0.0
    """The machine's load average just before the run: far from 0 means that others were at work."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> Report:
        return Report(
            **{
                **content,
                "tables": tuple(
                    Table(t["title"], tuple(t["columns"]), tuple(map(tuple, t["rows"]))) for t in content["tables"]
                ),
                "targets": tuple(Target(**t) for t in content["targets"]),
                "notes": tuple(content["notes"]),
            }
        )


Samples = Mapping[str, Sequence[Sample]]


def middle(samples: Sequence[Sample]) -> float:
    """The median of the runs, in seconds."""
    return median(sample.seconds for sample in samples)


def jobs_table(samples: Samples, events: int, beside: str) -> Table:
    """One row per job: median, spread, events a second, and its speed as a share of the job named ``beside``."""
    base = middle(samples[beside])
    rows = []
    for name, runs in samples.items():
        seconds = [run.seconds for run in runs]
        rows.append(
            (
                name,
                f"{middle(runs):.2f} s",
                f"{min(seconds):.2f}-{max(seconds):.2f} s",
                f"{events / middle(runs):,.0f}",
                f"{base / middle(runs):.2f}",
            )
        )
    runs_each = len(next(iter(samples.values())))
    columns = ("job", f"median of {runs_each}", "spread", "events/s", f"speed (1 = {beside})")
    return Table("", columns, tuple(rows))


def stages_table(samples: Samples) -> Table:
    """Where the time goes: the median of each stage of each job."""
    rows = []
    for name, runs in samples.items():
        stages = dict.fromkeys(key for run in runs for key in run.stages)
        rows += [(name, s, f"{median(run.stages.get(s, 0.0) for run in runs):.3f} s") for s in stages]
    return Table("Where the time goes (medians)", ("job", "stage", "time"), tuple(rows))


def all_seconds(samples: Samples) -> dict[str, list[float]]:
    return {name: [round(run.seconds, 4) for run in runs] for name, runs in samples.items()}


def percentile(ordered: Sequence[float], share: float) -> float:
    """The value that ``share`` of the sorted values don't exceed (nearest rank)."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
