"""Maintenance actions, the report of a run, and the policy with its limits."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Any, Final

from anabranch.lake.layout import Kind

MB: Final = 10**6
HOUR: Final = timedelta(hours=1).total_seconds()
DAY: Final = timedelta(days=1).total_seconds()


@dataclass(frozen=True, slots=True)
class Policy:
    """``few``: minimum number of small files in a partition that are merged. ``at_once``: maximum number of files in
    one commit. ``keep_days``: how long logs and control files of ended runs are kept. ``now``: seconds since 1970."""

    few: int = 4
    at_once: int = 2_000
    landing_bytes: int = 128 * MB
    half_bytes: int = 16 * MB
    """A stream's merge rewrites each file in which a row changes, so the files of a live half are kept small."""
    checkpoint_commits: int = 50
    keep_days: int = 30
    now: float = field(default_factory=time.time)

    def target(self, kind: Kind) -> int:
        """The target size in bytes; a file of at least half of it is not merged again."""
        return self.landing_bytes if kind == "landing" else self.half_bytes

    def ended_before(self) -> float:
        return self.now - self.keep_days * DAY


class ActionKind(StrEnum):
    MERGED = "merged"
    CHECKPOINTED = "checkpoint"
    CLEANED = "cleaned"
    FORGOTTEN = "forgotten"
    HELD_BACK = "held back"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Action:
    """One action, done or planned: ``files`` of ``bytes`` were merged into ``made`` files, or deleted. ``said``: which
    files, or why nothing was done."""

    act: ActionKind
    where: str
    said: str
    files: int = 0
    bytes: int = 0
    made: int = 0

    def __str__(self) -> str:
        count = f"{self.files:,} " if self.files else ""
        size = f" ({self.bytes / MB:,.2f} MB)" if self.bytes else ""
        into = f" into {self.made:,}" if self.made else ""
        return f"{self.act:<10}  {self.where}: {count}{self.said}{size}{into}"


@dataclass(frozen=True, slots=True)
class Report:
    """All actions of a run. ``planned``: nothing was changed."""

    actions: tuple[Action, ...]
    seconds: float
    planned: bool = False

    @property
    def failed(self) -> bool:
        return any(action.act is ActionKind.FAILED for action in self.actions)

    def freed(self) -> int:
        return sum(action.bytes for action in self.actions if action.act in (ActionKind.CLEANED, ActionKind.FORGOTTEN))

    def __str__(self) -> str:
        return "\n".join([*map(str, self.actions), *self._totals()])

    def _totals(self) -> Iterator[str]:
        merged = [action for action in self.actions if action.act is ActionKind.MERGED]
        files, made = sum(action.files for action in merged), sum(action.made for action in merged)
        would = "would be " if self.planned else ""
        yield (
            f"{files:,} files {would}merged into {made:,}, {self.freed() / MB:,.2f} MB {would}freed"
            + ("; nothing was changed" if self.planned else f", in {self.seconds:.1f} s")
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "planned": self.planned,
            "failed": self.failed,
            "seconds": round(self.seconds, 3),
            "freed_bytes": self.freed(),
            "deeds": [{**asdict(action), "act": action.act.value} for action in self.actions],
        }
