"""Caches the newest certificate of every partition of every view, and reads only new files of the table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from threading import Lock

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from anabranch.certify.certificates import Certificate, certificate_rows
from anabranch.core.settings import Settings
from anabranch.lake.files import parquet_file
from anabranch.lake.layout import VersionRef, certificates_table
from anabranch.lake.log.delta_tables import data_path, folder_of
from anabranch.serve.open_tables import OpenTables

CertificateSummaries = Mapping[date | None, "CertificateSummary"]
_COLUMNS = ["version", "partition", "run", "late_events", "equal", "created", "sequence"]


@dataclass(frozen=True, slots=True)
class CertificateSummary:
    """The newest certificate of a partition, in short; ``run`` is the run that wrote it."""

    equal: bool
    created: datetime
    run: str
    late_events: int
    sequence: int = 0


@dataclass
class _CachedTable:
    """The cached table. Certificates never change, so only new files are read."""

    table: DeltaTable
    version: int = -1
    files: set[str] = field(default_factory=set)
    marks: dict[tuple[str, int], dict[date | None, CertificateSummary]] = field(default_factory=dict)

    def refresh(self) -> None:
        if self.version == self.table.version():
            return
        actions = pa.table(self.table.get_add_actions(flatten=True))
        base = folder_of(self.table)
        marks = {key: dict(known) for key, known in self.marks.items()}  # copied: a page may be reading the old ones
        for path, view in zip(actions["path"].to_pylist(), actions["partition.view"].to_pylist(), strict=True):
            if path not in self.files:
                _add_newest(marks, view, data_path(base, path))
                self.files.add(path)
        self.marks, self.version = marks, self.table.version()


def _add_newest(marks: dict[tuple[str, int], dict[date | None, CertificateSummary]], view: str, path: Path) -> None:
    with parquet_file(path) as file:
        rows = file.read(_COLUMNS).to_pylist()
    for row in rows:
        mark = CertificateSummary(
            row["equal"], row["created"], row["run"], row["late_events"], row.get("sequence") or 0
        )
        of_version = marks.setdefault((view, row["version"]), {})
        before = of_version.get(row["partition"])
        if before is None or (before.sequence, before.created) <= (mark.sequence, mark.created):
            of_version[row["partition"]] = mark


_tables = OpenTables()
_cache: dict[str, _CachedTable] = {}
_lock = Lock()


def newest_summaries(settings: Settings) -> Mapping[tuple[str, int], CertificateSummaries]:
    """Returns the newest certificates by view and version. Reads only those recorded since the last call."""
    uri = certificates_table(settings)
    with _lock:
        try:
            return _refreshed(uri)
        except (DeltaError, OSError):  # its files were merged and deleted just now
            _cache.pop(uri, None)
            return _refreshed(uri)


def _refreshed(uri: str) -> Mapping[tuple[str, int], CertificateSummaries]:
    table = _tables.newest(uri)
    if table is None:
        return {}
    cached = _cache.get(uri)
    if cached is None or cached.table is not table:  # it was opened anew
        cached = _cache[uri] = _CachedTable(table)
    cached.refresh()
    return cached.marks


def all_certificates(ref: VersionRef, partition: date | None) -> list[Certificate]:
    """Returns all certificates of one partition, newest first."""
    where = f"partition = DATE '{partition}'" if partition else "partition IS NULL"
    rows = certificate_rows(ref.settings, f"view = '{ref.name}' AND version = {ref.version} AND {where}")
    return [Certificate.from_row(row) for row in reversed(rows)]
