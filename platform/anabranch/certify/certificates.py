"""Certificates: the record that both paths of a partition were equal at a cut, or that they were not.

They are kept in one Delta table, written by many runs at once: a writer that comes second looks again and
appends behind the first. A certificate is never changed; the newest one of a partition is the one that holds. Which one
that is says the commit that it is in, not a clock: of two machines, or of one that was set right, clocks disagree.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from anabranch.core.errors import Conflict
from anabranch.core.settings import Settings
from anabranch.lake import CommitMetadata, Cut, append, commit_history, create, stage_arrow, widen
from anabranch.lake.commits import open_table
from anabranch.lake.layout import certificates_table, safe_name
from anabranch.lake.optimistic import until_committed

RECOMPUTED: Final = "recomputed"
"""The view's function was run once more, over the on-time events."""
BUILD: Final = "build"
"""No late event and no event after the cut touches the partition: its batch build is that function's result."""

SCHEMA: Final = pa.schema(
    [
        ("view", pa.string()),
        ("version", pa.int64()),
        ("partition", pa.date32()),
        ("run", pa.string()),
        ("cut", pa.string()),
        ("speed_version", pa.int64()),
        ("fingerprint", pa.string()),
        ("method", pa.string()),
        ("speed_rows", pa.int64()),
        ("speed_hash_sum", pa.string()),
        ("speed_hash_xor", pa.int64()),
        ("expected_rows", pa.int64()),
        ("expected_hash_sum", pa.string()),
        ("expected_hash_xor", pa.int64()),
        ("late_events", pa.int64()),
        ("equal", pa.bool_()),
        ("created", pa.timestamp("us", "UTC")),
        # The version of this table by whose commit it came in; null in what was recorded before there was this column.
        ("sequence", pa.int64()),
    ]
)
_TRIES = 20


@dataclass(frozen=True, slots=True)
class Checksum:
    """A bag of rows in three numbers. ``hash_sum`` and ``hash_xor`` are over xxhash64 of each whole row."""

    rows: int = 0
    hash_sum: int = 0
    hash_xor: int = 0


@dataclass(frozen=True, slots=True)
class Certificate:
    """Whether the speed half of one partition held, at ``cut``, what the function of the same events says.

    ``partition`` is None for a kappa view, which is certified as a whole. ``late_events`` is how many late
    events up to the cut the partition's rows can depend on: they are in batch, and not compared here. Of two, the one
    with the higher ``sequence`` is newer; it is given when they are recorded.
    """

    view: str
    version: int
    partition: date | None
    run: str
    cut: Cut
    speed_version: int
    fingerprint: str
    method: str
    speed: Checksum
    expected: Checksum
    late_events: int
    created: datetime
    sequence: int = field(default=0, compare=False)

    @property
    def equal(self) -> bool:
        return self.speed == self.expected

    def to_row(self) -> dict[str, Any]:
        """One row of the certificates table; also what is shown as JSON."""
        return {
            "view": self.view,
            "version": self.version,
            "partition": self.partition,
            "run": self.run,
            "cut": json.dumps(self.cut.to_json()),
            "speed_version": self.speed_version,
            "fingerprint": self.fingerprint,
            "method": self.method,
            "speed_rows": self.speed.rows,
            "speed_hash_sum": str(self.speed.hash_sum),
            "speed_hash_xor": self.speed.hash_xor,
            "expected_rows": self.expected.rows,
            "expected_hash_sum": str(self.expected.hash_sum),
            "expected_hash_xor": self.expected.hash_xor,
            "late_events": self.late_events,
            "equal": self.equal,
            "created": self.created,
            "sequence": self.sequence,
        }

    @staticmethod
    def from_row(row: dict[str, Any]) -> Certificate:
        return Certificate(
            row["view"],
            row["version"],
            row["partition"],
            row["run"],
            Cut.from_json(json.loads(row["cut"])),
            row["speed_version"],
            row["fingerprint"],
            row["method"],
            Checksum(row["speed_rows"], int(row["speed_hash_sum"]), row["speed_hash_xor"]),
            Checksum(row["expected_rows"], int(row["expected_hash_sum"]), row["expected_hash_xor"]),
            row["late_events"],
            row["created"],
            row.get("sequence") or 0,
        )


def record(settings: Settings, certificates: Sequence[Certificate]) -> None:
    """Keep the certificates of one run. A repeat of the same run at the same speed version adds nothing."""
    if not certificates:
        return
    first = certificates[0]
    uri = certificates_table(settings)
    batch = f"{first.view}/v{first.version}/{first.run}@{first.speed_version}"
    note = CommitMetadata("certificates", batch, first.cut, first.fingerprint)
    create(uri, SCHEMA, ["view"], CommitMetadata("certificates", "created", Cut()))

    def attempt() -> None:
        table = open_table(uri)
        assert table is not None  # noqa: S101 - it was created above
        if any(committed.note.batch == batch for committed in commit_history(table, 200)):
            return
        if "sequence" not in pa.schema(table.schema().to_arrow()).names:
            widen(table, SCHEMA, CommitMetadata("certificates", "grown", Cut()))
        _append(table, certificates, note)

    until_committed("certificates", attempt, _TRIES)


def _append(table: DeltaTable, certificates: Sequence[Certificate], note: CommitMetadata) -> None:
    numbered = [replace(each, sequence=table.version() + 1).to_row() for each in certificates]
    uri = table.table_uri.removeprefix("file://")
    staged = stage_arrow(pa.Table.from_pylist(numbered, SCHEMA), uri, uuid4().hex, "view")
    try:
        append(table, staged, note)
    except Conflict:
        for file in staged:
            Path(uri, file.path).unlink()
        raise


def newest_certificates(settings: Settings, view: str, version: int) -> dict[date | None, Certificate]:
    """The newest certificate of each partition of one version of a view."""
    chosen = f"view = '{safe_name(view, 'view')}' and version = {int(version)}"
    return {row["partition"]: Certificate.from_row(row) for row in recorded(settings, chosen)}


def recorded(settings: Settings, chosen: str = "true") -> list[dict[str, Any]]:
    """The rows of the certificates table that the SQL ``chosen`` takes, the oldest first."""
    table = open_table(certificates_table(settings))
    if table is None:
        return []
    known = pa.schema(table.schema().to_arrow()).names
    order = "sequence nulls first, created" if "sequence" in known else "created"
    # Not through to_pyarrow_dataset: a process that has used it sometimes aborts when it exits.
    query = f"select * from certificates where {chosen} order by {order}"  # noqa: S608 - the caller's own words
    rows: list[dict[str, Any]] = pa.table(
        QueryBuilder().register("certificates", table).execute(query).read_all()
    ).to_pylist()
    return rows
