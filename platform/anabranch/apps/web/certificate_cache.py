"""The newest certificate of every partition of every view, from one look at the one table that holds them all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from threading import Lock
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from anabranch.certify.certificates import Certificate, certificate_rows
from anabranch.core.settings import Settings
from anabranch.lake.commits import open_table
from anabranch.lake.layout import certificates_table, safe_name
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

Marks = Mapping[date | None, "Mark"]
_COLUMNS = ["version", "partition", "run", "late_events", "equal", "created", "sequence"]


@dataclass(frozen=True, slots=True)
class Mark:
    """What the newest certificate of a partition says; ``run`` is the run that made it."""

    equal: bool
    created: datetime
    run: str
    late_events: int
    sequence: int = 0


@dataclass
class _Held:
    """The table as it was last seen. Certificates are never changed, so only files that are new are read."""

    table: DeltaTable
    version: int = -1
    files: set[str] = field(default_factory=set)
    marks: dict[tuple[str, int], dict[date | None, Mark]] = field(default_factory=dict)

    def forward(self) -> None:
        self.table.update_incremental()
        if self.version == self.table.version():
            return
        actions = pa.table(self.table.get_add_actions(flatten=True))
        base = self.table.table_uri.removeprefix("file://").rstrip("/")
        marks = {key: dict(known) for key, known in self.marks.items()}  # a page may be reading the ones before
        for path, view in zip(actions["path"].to_pylist(), actions["partition.view"].to_pylist(), strict=True):
            if path not in self.files:
                _take(marks, view, f"{base}/{unquote(path)}")
                self.files.add(path)
        self.marks, self.version = marks, self.table.version()


def _take(marks: dict[tuple[str, int], dict[date | None, Mark]], view: str, file: str) -> None:
    for row in pq.ParquetFile(file).read(_COLUMNS).to_pylist():
        mark = Mark(row["equal"], row["created"], row["run"], row["late_events"], row.get("sequence") or 0)
        of_version = marks.setdefault((view, row["version"]), {})
        before = of_version.get(row["partition"])
        if before is None or (before.sequence, before.created) <= (mark.sequence, mark.created):
            of_version[row["partition"]] = mark


_held: dict[str, _Held] = {}
_lock = Lock()


def newest_marks(settings: Settings) -> Mapping[tuple[str, int], Marks]:
    """By view and version. Costs the certificates that were recorded since the last look."""
    uri = certificates_table(settings)
    with _lock:
        try:
            if (held := _held.get(uri)) is not None:
                held.forward()
                return held.marks
        except (DeltaError, OSError):  # its log was cleaned up, or the table was made again
            _held.pop(uri, None)
        table = open_table(uri)
        if table is None:
            return {}
        held = _Held(table)
        held.forward()
        _held[uri] = held
        return held.marks


def all_certificates(settings: Settings, view: str, version: int, partition: date | None) -> list[Certificate]:
    """Every certificate that one partition has had, newest first."""
    where = f"partition = DATE '{partition}'" if partition else "partition IS NULL"
    rows = certificate_rows(settings, f"view = '{safe_name(view, 'view')}' AND version = {int(version)} AND {where}")
    return [Certificate.from_row(row) for row in reversed(rows)]
