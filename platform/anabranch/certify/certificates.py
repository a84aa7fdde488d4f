"""Certificates: records of whether both paths of a partition were equal at a cut.

All certificates are in one Delta table. Many runs write to it concurrently: a writer whose append conflicts reads the
table again and retries. A certificate never changes; the newest one of a partition is valid. "Newest" is decided by the
version of the commit, not by a clock: clocks of two machines differ, and a clock can be set back.
"""

from __future__ import annotations

import hashlib
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
from anabranch.core.storage import storage_of
from anabranch.lake import CommitMetadata, commit_history, open_table
from anabranch.lake.commits import append, create, widen
from anabranch.lake.cut import Cut
from anabranch.lake.files import stage_arrow
from anabranch.lake.layout import VersionRef, certificates_table
from anabranch.lake.log.delta_tables import folder_of
from anabranch.lake.optimistic import until_committed

RECOMPUTED: Final = "recomputed"
"""The view's function was run again over the on-time events."""
BUILD: Final = "build"
"""The partition's batch build was used: no late event and no event after the build's cut affects the partition, so the
build already is the function's result."""

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
        # The version of this table that added the row. Null in rows that are older than this column.
        ("sequence", pa.int64()),
    ]
)
CERTIFICATES_FORMAT: Final = 2
"""Of the table: 1 had no ``sequence``."""
_TRIES = 20


@dataclass(frozen=True, slots=True)
class Checksum:
    """A fingerprint of a multiset of rows. ``hash_sum`` and ``hash_xor`` aggregate the xxhash64 of each whole row."""

    rows: int = 0
    hash_sum: int = 0
    hash_xor: int = 0


@dataclass(frozen=True, slots=True)
class Certificate:
    """Whether the speed half of one partition equalled, at ``cut``, the view's function over the same events.

    ``partition`` is None for a kappa view, which is certified as a whole. ``late_events`` counts the late events up to
    the cut that the partition's rows can depend on: only batch has them, so they are not compared here. The certificate
    with the higher ``sequence`` is newer; ``record`` assigns it.
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
        """Return one row of the certificates table; the CLI prints the same fields as JSON."""
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
    """Store the certificates of one run. Idempotent: if the last ones of this run and version of the speed table say
    the same, nothing is written. Those of another try may say otherwise."""
    if not certificates:
        return
    first = certificates[0]
    uri = certificates_table(settings)
    tries = f"{first.view}/v{first.version}/{first.run}@{first.speed_version}"
    batch = f"{tries}#{_digest(certificates)}"
    note = CommitMetadata("certificates", batch, first.cut, first.fingerprint)
    create(uri, SCHEMA, ["view"], CommitMetadata("certificates", "created", Cut()))

    def attempt() -> None:
        table = open_table(uri)
        assert table is not None  # noqa: S101 - it was created above
        batches = (commit.note.batch for commit in commit_history(table, 200))
        if next((known for known in batches if known.partition("#")[0] == tries), None) == batch:
            return
        _grow(table)
        _append(table, certificates, note)

    until_committed("certificates", attempt, _TRIES)


def _digest(certificates: Sequence[Certificate]) -> str:
    """A hash of what the certificates say, whenever they were made."""
    rows = [{**each.to_row(), "created": None, "sequence": None} for each in certificates]
    return hashlib.sha256(json.dumps(rows, default=str).encode()).hexdigest()[:16]


def table_format(schema: pa.Schema) -> int:
    """The format of a table of certificates with these columns."""
    return CERTIFICATES_FORMAT if "sequence" in schema.names else 1


def grow_table(uri: str) -> None:
    """Let an existing table have the columns of the newest format. Safe to repeat."""

    def attempt() -> None:
        if (table := open_table(uri)) is not None:
            _grow(table)

    until_committed("certificates", attempt, _TRIES)


def _grow(table: DeltaTable) -> None:
    if table_format(pa.schema(table.schema().to_arrow())) < CERTIFICATES_FORMAT:
        widen(table, SCHEMA, CommitMetadata("certificates", "grown", Cut()))


def _append(table: DeltaTable, certificates: Sequence[Certificate], note: CommitMetadata) -> None:
    numbered = [replace(each, sequence=table.version() + 1).to_row() for each in certificates]
    uri = str(folder_of(table))
    staged = stage_arrow(pa.Table.from_pylist(numbered, SCHEMA), uri, uuid4().hex, "view")
    try:
        append(table, staged, note)
    except Conflict:
        for file in staged:
            storage_of(Path(uri)).remove(Path(uri, file.path))
        raise


def newest_certificates(ref: VersionRef) -> dict[date | None, Certificate]:
    """Return the newest certificate of each partition of one view version."""
    condition = f"view = '{ref.name}' and version = {ref.version}"
    return {row["partition"]: Certificate.from_row(row) for row in certificate_rows(ref.settings, condition)}


def newest_sequence(settings: Settings) -> int:
    """Return the sequence number of the newest certificate of all; 0 if there is none."""
    table = open_table(certificates_table(settings))
    return table.version() if table is not None else 0


def certified_partitions(ref: VersionRef, until: int | None = None) -> set[date | None]:
    """Return the partitions that have a certificate, equal or not, with a sequence number up to ``until``."""
    rows = certificate_rows(ref.settings, f"view = '{ref.name}' and version = {ref.version}")
    return {row["partition"] for row in rows if until is None or (row.get("sequence") or 0) <= until}


def certificate_rows(settings: Settings, condition: str = "true") -> list[dict[str, Any]]:
    """Return the rows of the certificates table that match the SQL ``condition``, oldest first."""
    table = open_table(certificates_table(settings))
    if table is None:
        return []
    columns = pa.schema(table.schema().to_arrow()).names
    order = "sequence nulls first, created" if "sequence" in columns else "created"
    # Not through to_pyarrow_dataset: a process that has used it sometimes aborts when it exits.
    query = f"select * from certificates where {condition} order by {order}"  # noqa: S608 - written by our own callers
    rows: list[dict[str, Any]] = pa.table(
        QueryBuilder().register("certificates", table).execute(query).read_all()
    ).to_pylist()
    return rows
