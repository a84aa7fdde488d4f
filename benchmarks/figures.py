"""What a benchmark measured: figures, tables and notes, as data that is kept and rendered later."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any


@dataclass(frozen=True, slots=True)
class Sample:
    """One run of one job: its wall-clock seconds, and the seconds of its stages."""

    seconds: float
    stages: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Table:
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured value with all its runs. ``name`` is what README and docs cite (``landing.speed``).

    ``limit``: the target, None where there is none; ``at_least``: whether the value should be above it.
    """

    name: str
    what: str
    values: tuple[float, ...]
    unit: str = ""
    digits: int = 2
    limit: float | None = None
    at_least: bool = True

    @property
    def value(self) -> float:
        """The median of the runs."""
        return median(self.values)

    @property
    def text(self) -> str:
        return self._shown(self.value)

    @property
    def spread(self) -> str:
        """The smallest and the largest run."""
        return f"{min(self.values):,.{self.digits}f} to {self._shown(max(self.values))}"

    @property
    def target(self) -> str:
        return "" if self.limit is None else f"at {'least' if self.at_least else 'most'} {self.limit:,g}{self.unit}"

    @property
    def verdict(self) -> str:
        """``met``, or by how much the target is missed; empty without a target."""
        if self.limit is None:
            return ""
        met = self.value >= self.limit if self.at_least else self.value <= self.limit
        missed = abs(self.value / self.limit - 1)
        return "met" if met else f"**missed by {f'{missed:.0%}' if missed >= 0.005 else 'less than 1%'}**"

    def _shown(self, value: float) -> str:
        return f"{value:,.{self.digits}f}{self.unit}"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where and when a report was measured. ``busy``: the share of all cores that was in use just before; ``stolen``:
    the share of the cores' time that the host gave to other machines during the run; ``hardware``, ``software`` and
    ``speed`` (before the run): as ``benchmarks.machine`` says, empty where that wasn't kept."""

    commit: str
    when: str
    size: str
    busy: float
    stolen: float = 0.0
    hardware: str = ""
    software: str = ""
    speed: Sequence[float] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """One benchmark's result. ``samples`` are the values of every run, by job, so that others can judge the spread."""

    name: str
    title: str
    what: str
    tables: tuple[Table, ...]
    figures: tuple[Figure, ...] = ()
    notes: tuple[str, ...] = ()
    samples: Mapping[str, Sequence[float]] = field(default_factory=dict)
    origin: Origin | None = None

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
                "figures": tuple(Figure(**{**f, "values": tuple(f["values"])}) for f in content["figures"]),
                "notes": tuple(content["notes"]),
                "origin": _origin(content["origin"]) if content["origin"] else None,
            }
        )


def _origin(content: Mapping[str, Any]) -> Origin:
    return Origin(**{**content, "speed": tuple(content.get("speed", ()))})


Samples = Mapping[str, Sequence[Sample]]


def middle(samples: Sequence[Sample]) -> float:
    """The median of the runs, in seconds."""
    return median(sample.seconds for sample in samples)


def ratios(above: Sequence[Sample], below: Sequence[Sample]) -> tuple[float, ...]:
    """The seconds of ``above`` divided by those of ``below``, run by run: both ran in turn, so each pair met the same
    state of the machine."""
    return tuple(one.seconds / other.seconds for one, other in zip(above, below, strict=True))


def jobs_table(samples: Samples, events: int, rival: str) -> Table:
    """One row per job: median, spread, events a second, and its speed as a multiple of the job named ``rival``."""
    rows = []
    for name, runs in samples.items():
        seconds = [run.seconds for run in runs]
        rows.append(
            (
                name,
                f"{middle(runs):.2f} s",
                f"{min(seconds):.2f} to {max(seconds):.2f} s",
                f"{events / middle(runs):,.0f}",
                f"{median(ratios(samples[rival], runs)):.2f}",
            )
        )
    runs_each = len(next(iter(samples.values())))
    columns = ("job", f"median of {runs_each}", "spread", "events/s", f"speed (1 = {rival})")
    return Table("", columns, tuple(rows))


def stages_table(samples: Samples) -> Table:
    """The median of each stage of each job."""
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
