"""A staged build as reconciliation sees it: which files hold which partition, up to which cut."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date

from anabranch.tables import Cut


@dataclass(frozen=True, slots=True)
class Staged:
    """Parquet files (absolute paths, in folders by partition below ``base``) that no reader sees yet."""

    base: str
    cut: Cut
    partitions: tuple[date, ...]
    files: Mapping[date, tuple[str, ...]] = field(hash=False)

    def paths(self, partitions: Sequence[date]) -> list[str]:
        return [path for day in partitions for path in self.files.get(day, ())]
