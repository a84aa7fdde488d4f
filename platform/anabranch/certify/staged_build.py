"""A staged build: the files of each partition, and the cut that they cover."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from anabranch.compute.batch.manifest import Build
from anabranch.core.settings import Settings
from anabranch.lake.cut import Cut
from anabranch.lake.layout import VersionRef
from anabranch.views.model.definition import PARTITION_DATE


@dataclass(frozen=True, slots=True)
class StagedBuild:
    """Parquet files that readers don't see yet: absolute paths, in Hive partition folders below ``base``."""

    base: str
    cut: Cut
    partitions: tuple[date, ...]
    files: Mapping[date, tuple[str, ...]] = field(hash=False)

    @staticmethod
    def of(settings: Settings, build: Build) -> StagedBuild:
        """Return the files of a manifest. They are in the batch table's folder."""
        table = Path(VersionRef(settings, build.view, build.version).batch_table)
        files: dict[date, tuple[str, ...]] = {}
        for file in build.files:
            day = date.fromisoformat(str(file.partition[PARTITION_DATE]))
            files[day] = (*files.get(day, ()), str(table / file.path))
        base = (table / build.files[0].path).parent.parent if build.files else table
        return StagedBuild(str(base), build.cut, build.partitions, files)

    def paths(self, partitions: Sequence[date]) -> list[str]:
        return [path for day in partitions for path in self.files.get(day, ())]
