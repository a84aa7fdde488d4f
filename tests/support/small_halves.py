"""Halves of a small view made by hand, without Spark: KEYS rows a day, each with the epoch that wrote it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from uuid import uuid4

import pyarrow as pa
from anabranch.core.settings import Settings
from anabranch.lake import CommitMetadata, commits
from anabranch.lake.cut import Cut, Position
from anabranch.lake.files import stage_arrow
from anabranch.lake.layout import VersionRef
from anabranch.views.model.definition import CHANGED, PARTITION_DATE

VIEW = "delays"
KEYS = 48
DAYS = [date(2013, 1, day) for day in range(1, 6)]
_COLUMNS = [
    ("window_start", pa.timestamp("us", "UTC")),
    ("origin", pa.string()),
    ("written_by", pa.int64()),
    ("mean_delay", pa.decimal128(12, 3)),
    (PARTITION_DATE, pa.date32()),
]
BATCH_SCHEMA = pa.schema(_COLUMNS)
SPEED_SCHEMA = pa.schema([*_COLUMNS, (CHANGED, pa.int64())])


def cut_at(epoch: int) -> Cut:
    return Cut({"flights": Position(epoch, {0: epoch})})


def rows_at(epoch: int, days: Sequence[date]) -> pa.Table:
    rows = [
        {
            "window_start": datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(minutes=30 * key),
            "origin": None if key == 7 else f"O'{key % 3}",
            "written_by": None if key == 9 else epoch,
            "mean_delay": "1.125",
            PARTITION_DATE: day,
            CHANGED: epoch,
        }
        for day in days
        for key in range(KEYS)
    ]
    from decimal import Decimal

    return pa.Table.from_pylist([row | {"mean_delay": Decimal("1.125")} for row in rows], SPEED_SCHEMA)


def start_speed(
    settings: Settings, epoch: int, days: Sequence[date] = DAYS, version: int = 1, schema: pa.Schema = SPEED_SCHEMA
) -> None:
    """``schema``: all of the columns, or some of them, or with other types."""
    uri = VersionRef(settings, VIEW, version).speed_table
    by = PARTITION_DATE if PARTITION_DATE in schema.names else None
    table = commits.create(uri, schema, [by] if by else [], CommitMetadata("view/delays/v1/speed", "create", Cut()))
    rows = rows_at(epoch, days).select(schema.names).cast(schema)
    staged = stage_arrow(rows, uri, uuid4().hex, by)
    commits.replace(table, staged, CommitMetadata("view/delays/v1/speed", f"c:{epoch}", cut_at(epoch)), None)


def merge_speed(settings: Settings, epoch: int, days: Sequence[date], version: int = 1) -> None:
    table = commits.open_table(VersionRef(settings, VIEW, version).speed_table)
    assert table is not None
    note = CommitMetadata("view/delays/v1/speed", f"c:{epoch}", cut_at(epoch))
    commits.upsert(table, rows_at(epoch, days), ["window_start"], note, PARTITION_DATE)


def replace_speed(settings: Settings, epoch: int, days: Sequence[date], version: int = 1) -> None:
    """All rows anew, in one commit: a third of the time of ``merge_speed``."""
    table = commits.open_table(uri := VersionRef(settings, VIEW, version).speed_table)
    assert table is not None
    staged = stage_arrow(rows_at(epoch, days), uri, uuid4().hex, PARTITION_DATE)
    commits.replace(table, staged, CommitMetadata("view/delays/v1/speed", f"c:{epoch}", cut_at(epoch)), None)


def publish(settings: Settings, published: Mapping[date, int], days: Sequence[date], version: int = 1) -> None:
    """Publish ``days``; ``published`` is the whole map afterwards."""
    uri = VersionRef(settings, VIEW, version).batch_table
    table = commits.create(uri, BATCH_SCHEMA, [PARTITION_DATE], CommitMetadata("view/delays/v1/batch", "create", Cut()))
    staged = [
        file
        for day in days
        for file in stage_arrow(
            rows_at(published[day], [day]).drop_columns([CHANGED]), uri, uuid4().hex, PARTITION_DATE
        )
    ]
    ranges = [
        {"from": str(day), "to": str(day), "cut": cut_at(epoch).to_json(), "run": "r"}
        for day, epoch in published.items()
    ]
    newest = cut_at(max(published.values()))
    note = CommitMetadata("view/delays/v1/batch", uuid4().hex, newest, extra={"published": ranges})
    commits.replace(table, staged, note, (PARTITION_DATE, [str(day) for day in days]))
