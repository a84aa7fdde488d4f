"""What a run of the maintenance does, as data and as text, and what it holds itself to."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Any, Final

from anabranch.lake.table_refs import Kind

MB: Final = 10**6
HOUR: Final = timedelta(hours=1).total_seconds()
DAY: Final = timedelta(days=1).total_seconds()


@dataclass(frozen=True, slots=True)
class Policy:
    """``few``: so many small files of a partition are merged, less stay. ``at_once``: so many at most by one commit.
    ``keep_days``: how long control files of what has ended, and logs, are kept. ``now``: seconds since 1970."""

    few: int = 4
    at_once: int = 2_000
    landing_bytes: int = 128 * MB
    half_bytes: int = 16 * MB
    """A merge writes each file anew in which a row changes: those of a live half stay small."""
    checkpoint_commits: int = 50
    keep_days: int = 30
    now: float = field(default_factory=time.time)

    def target(self, kind: Kind) -> int:
        """The size of a file, in bytes, that needs no merging any more, twice over."""
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
    """One thing that was done, or would be: ``files`` of ``bytes`` were merged into ``made``, or taken away. ``said``:
    which files, or why not."""

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
    """All of a run. ``planned``: nothing was changed."""

    deeds: tuple[Action, ...]
    seconds: float
    planned: bool = False

    @property
    def failed(self) -> bool:
        return any(deed.act is ActionKind.FAILED for deed in self.deeds)

    def freed(self) -> int:
        return sum(deed.bytes for deed in self.deeds if deed.act in (ActionKind.CLEANED, ActionKind.FORGOTTEN))

    def __str__(self) -> str:
        return "\n".join([*map(str, self.deeds), *self._sum()])

    def _sum(self) -> Iterator[str]:
        merged = [deed for deed in self.deeds if deed.act is ActionKind.MERGED]
        files, made = sum(deed.files for deed in merged), sum(deed.made for deed in merged)
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
            "deeds": [{**asdict(deed), "act": deed.act.value} for deed in self.deeds],
        }
