"""Reads a row as readers get it, with its source: half, version, cut, commit, certificate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from anabranch.certify.certificates import Certificate, newest_certificates
from anabranch.compute.batch.publish import published_in
from anabranch.core.errors import Conflict
from anabranch.lake import Commit, commit_history
from anabranch.lake.cut import Cut
from anabranch.operate.explain._candidates import Row
from anabranch.operate.explain._evaluator import with_key
from anabranch.serve.half_choice import BATCH, SPEED, HalfName, checked_prefer
from anabranch.serve.read_plan import ReadPlan, pin
from anabranch.serve.table_snapshots import Snapshot
from anabranch.views.model.definition import CHANGED, is_own
from anabranch.views.model.handle import ViewHandle

_NEAR = 5


@dataclass(frozen=True, slots=True)
class Source:
    """Where a served row comes from. ``cut``: what its half covers of the partition. ``epoch`` (speed half only): the
    newest epoch of the micro-batch that wrote it last. ``run`` (batch half only): the reprocess that published it."""

    half: HalfName
    version: int
    cut: Cut
    table_version: int
    committed: datetime
    certificate: Certificate | None
    epoch: int | None = None
    run: str | None = None

    @property
    def late(self) -> bool:
        """Whether the row includes late events."""
        return self.half == BATCH


@dataclass(frozen=True)
class Served:
    """One partition of a view at pinned table versions. ``row`` is None if the view has no row of the key."""

    pinned: ReadPlan
    day: date | None
    row: Row | None
    source: Source
    near: Sequence[Row] = field(default=())


def half_schema(view: ViewHandle, prefer: str) -> tuple[ReadPlan, pa.Schema]:
    """Pins the view's halves as they are now, and returns them with the view's columns. Raises Conflict
    DEFINITION_CHANGED if another function wrote its tables."""
    pinned = pin(view.settings, view.name, view.version, checked_prefer(prefer), None)
    found = pinned.speed.newest.note.fingerprint
    if found != view.definition.fingerprint:
        raise Conflict(
            "DEFINITION_CHANGED",
            f"{view.definition.origin}: {view} is not the function that wrote its tables",
            state="nothing was explained",
            next_step=f"restore the old definition, or declare the new one as version {view.version + 1}",
            table=found,
            definition=view.definition.fingerprint,
        )
    return pinned, pa.schema([f for f in pinned.speed.schema if is_own(f.name)])


def served(view: ViewHandle, pinned: ReadPlan, schema: pa.Schema, key: Row, day: date | None) -> Served:
    """Returns the row of ``key`` in the half that serves ``day``; if there is none, the rows with the nearest keys."""
    half = pinned.halves.get(day, SPEED)
    rows = half_rows(pinned, schema, half, day)
    found = with_key(rows, key)
    epoch = found.get(CHANGED) if found is not None else None
    row = {name: found[name] for name in schema.names} if found is not None else None
    source = _source(view, pinned, half, day, epoch)
    near = () if row is not None else [{n: r[n] for n in schema.names} for r in _near(rows, key)]
    return Served(pinned, day, row, source, near)


def half_rows(pinned: ReadPlan, schema: pa.Schema, half: HalfName, day: date | None) -> list[Row]:
    """Returns all rows of one half in a partition; those of the speed half with the epoch that wrote them."""
    table: Snapshot | None = pinned.batch if half == BATCH else pinned.speed
    files = list(table.files.get(day, ())) if table is not None else []
    if not files:
        return []
    alone = CHANGED in pinned.speed.schema.names  # a view over several topics has no single epoch
    columns = pa.schema([*schema, pa.field(CHANGED, pa.int64())]) if half == SPEED and alone else schema
    rows: list[Row] = ds.dataset(files, schema=columns, format="parquet").to_table().to_pylist()
    return rows


def _source(view: ViewHandle, pinned: ReadPlan, half: HalfName, day: date | None, epoch: int | None) -> Source:
    certificate = newest_certificates(view).get(day)
    if half == BATCH and pinned.batch is not None and day is not None:
        published = published_in(pinned.batch.newest.note)[day]
        commit = commit_of(pinned.batch.uri, f"publish:{published.run}") or pinned.batch.newest
        return Source(
            BATCH, view.version, published.cut, commit.version, time_of(commit), certificate, run=published.run
        )
    newest = pinned.speed.newest
    return Source(SPEED, view.version, newest.note.cut, newest.version, time_of(newest), certificate, epoch)


def commit_of(uri: str, batch: str) -> Commit | None:
    """Returns the commit of that batch; None if the table's log no longer holds it."""
    return next((found for found in commit_history(uri) if found.note.batch == batch), None)


def time_of(commit: Commit) -> datetime:
    return datetime.fromtimestamp(commit.commit_time_ms / 1000, UTC)


def _near(rows: Sequence[Row], key: Mapping[str, Any]) -> list[Row]:
    """Rows that share most of the key; among those, the closest in the differing columns first."""

    def distance(row: Row) -> tuple[int, float, str]:
        off = [name for name, value in key.items() if row[name] != value]
        gaps = [_gap(row[name], key[name]) for name in off]
        return len(off), sum(gaps), repr([row[name] for name in key])

    return sorted(rows, key=distance)[:_NEAR]


def _gap(left: Any, right: Any) -> float:
    if isinstance(left, datetime) and isinstance(right, datetime):
        return abs((left - right).total_seconds())
    if isinstance(left, int | float) and isinstance(right, int | float):
        return abs(float(left) - float(right))
    return 0.0 if left == right else 1e9
