"""A small platform with many small files, and what must be so of it whatever its maintenance has done."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from anabranch.core.settings import Settings
from anabranch.lake.layout import VersionRef
from anabranch.lake.log.archived_commits import ARCHIVE, LOG, archive_commits
from anabranch.operate.doctor import examine
from anabranch.operate.doctor._run_checks import Report
from anabranch.operate.maintenance._report import DAY, Policy
from deltalake import DeltaTable

from support.small_platform import DAYS, NAME, V1, Clinic, departed

EPOCHS = 8


def busy(home: Path, epochs: int = EPOCHS) -> Clinic:
    """Each epoch has an event of each of two days; the speed half has a commit for each."""
    clinic = Clinic(Settings(home=home))
    for number in range(epochs):
        clinic.land([departed(2 * number, DAYS[0]), departed(2 * number + 1, DAYS[1], broken=number % 5 == 4)])
        clinic.speed(DAYS[:2] if number == 0 else [DAYS[number % 2]], origin=f"A{number:02d}")
    return clinic


def later(days: float) -> Policy:
    """That of a run so many days from now."""
    return Policy(now=time.time() + days * DAY)


def said(clinic: Clinic, policy: Policy | None = None) -> Report:
    """What the doctor says, two hours from now or at the time of ``policy``: staged files are old enough to be told."""
    return examine(clinic.platform(now=policy.now if policy else time.time() + 7_200), pause=0)


def files(uri: str) -> list[str]:
    return [str(uri_of).removeprefix("file://") for uri_of in DeltaTable(uri).file_uris()]


def rows(uri: str, of: list[str] | None = None) -> Counter[str]:
    """Every row of a table, or of these files of it, with the partition that it lies in."""
    found = Counter[str]()
    for path in of if of is not None else files(uri):
        partition = [part for part in Path(path).parts if "=" in part]
        for row in pq.ParquetFile(path).read().to_pylist():
            found[repr((partition, sorted((name, value) for name, value in row.items() if value is not None)))] += 1
    return found


def on_disk(uri: str) -> set[str]:
    return {str(p) for p in Path(uri).rglob("*.parquet") if not {LOG, ARCHIVE} & set(p.parts)}


def speed_of(clinic: Clinic) -> str:
    return VersionRef(clinic.settings, NAME, V1.version).speed_table


def shorten(uri: str) -> None:
    """Have the log of a table begin at a checkpoint at its end; what came before lies beside it."""
    table = DeltaTable(uri)
    if table.version() > 0:
        DeltaTable(uri, version=table.version() - 1).create_checkpoint()
    table.create_checkpoint()
    archive_commits(Path(uri), None)


def tree(home: Path) -> dict[str, Any]:
    return {str(p): (p.stat().st_size, p.stat().st_mtime_ns) for p in home.rglob("*")}


def actions(uri: str) -> pa.Table:
    return pa.table(DeltaTable(uri).get_add_actions(flatten=True))
