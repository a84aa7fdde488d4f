"""A staged build as reconciliation sees it: which files hold which partition, up to which cut."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from anabranch.compute.batch.manifest import Build
from anabranch.core.settings import Settings
from anabranch.lake import Cut
from anabranch.lake.layout import batch_table
from anabranch.views.definition import PARTITION_DATE


@dataclass(frozen=True, slots=True)
class Staged:
    """Parquet files (absolute paths, in folders by partition below ``base``) that no reader sees yet."""

    base: str
    cut: Cut
    partitions: tuple[date, ...]
    files: Mapping[date, tuple[str, ...]] = field(hash=False)

    @staticmethod
    def of(settings: Settings, build: Build) -> Staged:
        """The files of a manifest; they lie in the batch table's folder."""
        table = Path(batch_table(settings, build.view, build.version))
        files: dict[date, tuple[str, ...]] = {}
        for file in build.files:
            day = date.fromisoformat(str(file.partition[PARTITION_DATE]))
            files[day] = (*files.get(day, ()), str(table / file.path))
        base = (table / build.files[0].path).parent.parent if build.files else table
        return Staged(str(base), build.cut, build.partitions, files)

    def paths(self, partitions: Sequence[date]) -> list[str]:
        return [path for day in partitions for path in self.files.get(day, ())]
