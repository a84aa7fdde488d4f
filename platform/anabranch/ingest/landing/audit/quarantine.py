"""Quarantine: lists records that could not be read, and releases them after the cause was fixed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import duckdb
from deltalake import DeltaTable

from anabranch.contracts import Topic
from anabranch.core.errors import BadInput, TryAgain
from anabranch.core.settings import Settings
from anabranch.ingest.landing.audit._release_epoch import Released, ReleaseEpoch, RowsChanged
from anabranch.ingest.landing.epoch_pacing import run_first
from anabranch.ingest.landing.state import open_landing
from anabranch.ingest.landing.table.sql import landed_rows
from anabranch.ingest.schema_registry import asking_registry
from anabranch.lake import open_table
from anabranch.lake.layout import landing_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Quarantined", "QuarantinedKind", "Released", "find_quarantined", "kinds_quarantined", "list_quarantined",
           "release"]  # fmt: skip
PART_RECORDS: Final = 50_000
PART_BYTES: Final = 64 << 20
"""A release reads so many records at once: all of them may be more than fit into memory."""
_START: Final = datetime(1970, 1, 1, tzinfo=UTC)
_KIND: Final = "split_part(q.reason, ':', 1)"
_PLACE: Final = f'(q."partition"::hugeint * {2**63} + q."offset")'
"""Where a record is, as one number: DuckDB has no range of pairs."""
_FOUND: Final = """
from rows q where q.decision = 'quarantined' and not exists (
    select 1 from rows r
    where r.released_from is not null and r."partition" = q."partition" and r."offset" = q."offset")
"""
_COLUMNS: Final = 'q.topic, q."partition", q."offset", q.append_time, q.epoch, q.reason, q.type'
_KINDS: Final = f"""
select {_COLUMNS}, count(*) over own, min(q.epoch) over own {_FOUND} {{only}}
window own as (partition by {_KIND}, q.type)
qualify row_number() over (
    partition by {_KIND}, q.type order by q.epoch desc, q."partition" desc, q."offset" desc) = 1
order by 2, 3
"""
_PARTS: Final = f"""
select min(place), max(place) from (
    select place, (count(*) over before - 1) // {{records}} as records, sum(size) over before // {{bytes}} as bytes
    from (select {_PLACE} as place, coalesce(octet_length(q.value), 0) as size {_FOUND} {{only}})
    window before as (order by place rows unbounded preceding))
group by records, bytes order by 1
"""  # noqa: S608


@dataclass(frozen=True, slots=True)
class Quarantined:
    """One record in quarantine. ``value`` holds the bytes that the producer sent; where only lists are made, it isn't
    read, nor are key and headers."""

    topic: str
    partition: int
    offset: int
    append_time: datetime
    epoch: int
    reason: str
    type: str | None
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] | None = None

    @property
    def kind(self) -> str:
        """What the reason begins with: ``not_json``, ``envelope``, or the field that breaks the contract."""
        return self.reason.partition(":")[0]


@dataclass(frozen=True, slots=True)
class QuarantinedKind:
    """The records in quarantine of one kind and one type: how many, the epoch of the first, and the newest."""

    records: int
    first_epoch: int
    newest: Quarantined


@dataclass(frozen=True, slots=True)
class _Asked:
    """Which records: that at ``offset`` (partition and offset), those of a ``kind``, those of a ``part`` (its first and
    last _PLACE)."""

    offset: tuple[int, int] | None = None
    kind: str | None = None
    part: tuple[int, int] | None = None

    def sql(self) -> tuple[str, list[Any]]:
        found: list[tuple[str, list[Any]]] = []
        if self.offset is not None:
            found.append(('and q."partition" = ? and q."offset" = ?', [*self.offset]))
        if self.kind is not None:
            found.append((f"and {_KIND} = ?", [self.kind]))
        if self.part is not None:
            found.append((f"and {_PLACE} between ? and ?", [*self.part]))
        return " ".join(text for text, _ in found), [each for _, values in found for each in values]


def list_quarantined(settings: Settings, topic: Topic, offset: tuple[int, int] | None = None) -> list[Quarantined]:
    """The records in quarantine that were not released, ordered by (partition, offset), with their bytes."""
    table = open_table(landing_table(settings, topic.name))
    return [] if table is None else _records(table, _Asked(offset))


def kinds_quarantined(
    settings: Settings, topic: Topic, offset: tuple[int, int] | None = None, kind: str | None = None
) -> list[QuarantinedKind]:
    """The kinds of what is in quarantine; the bytes of records aren't read. Raises BadInput NOT_QUARANTINED if none has
    the ``offset`` and ``kind`` that are asked for."""
    table = open_table(landing_table(settings, topic.name))
    found = [] if table is None else _kinds(table, _Asked(offset, kind))
    if found or (offset is None and kind is None):
        return found
    others = [] if table is None else _kinds(table, _Asked(offset))
    asked = topic.name if offset is None else f"{topic.name}/{offset[0]}:{offset[1]}"
    there = ", ".join(sorted({each.newest.kind for each in others}))
    raise BadInput(
        "NOT_QUARANTINED",
        f"{asked} is not in quarantine{'' if kind is None else f' as {kind!a}'}",
        state="nothing was changed" + (f"; kinds there: {there}" if there else ""),
        next_step=f"list what is: anabranch quarantine list {topic.name}",
    )


def find_quarantined(
    settings: Settings,
    topic: Topic,
    offset: tuple[int, int] | None = None,
    kind: str | None = None,
    *,
    content: bool = True,
) -> list[Quarantined]:
    """``list_quarantined``, of one ``kind`` only if given; without ``content`` the bytes aren't read. Raises what
    ``kinds_quarantined`` raises."""
    kinds_quarantined(settings, topic, offset, kind)
    table = open_table(landing_table(settings, topic.name))
    return [] if table is None else _records(table, _Asked(offset, kind), content=content)


def _records(table: DeltaTable, asked: _Asked, *, content: bool = True) -> list[Quarantined]:
    rows = landed_rows(table)
    columns = _COLUMNS
    if content:  # older files have no headers
        headers = "q.headers" if "headers" in rows.table("rows").columns else "null"
        columns = f"{_COLUMNS}, q.key, q.value, {headers}"
    only, values = asked.sql()
    found = rows.execute(f"select {columns} {_FOUND} {only} order by 2, 3", values).fetchall()
    if not content:
        return [Quarantined(*row) for row in found]
    return [replace(Quarantined(*row[:-1]), headers=_pairs(row[-1])) for row in found]


def _pairs(headers: list[dict[str, Any]] | None) -> tuple[tuple[str, bytes | None], ...] | None:
    return None if headers is None else tuple((header["key"], header["value"]) for header in headers)


def _kinds(table: DeltaTable, asked: _Asked) -> list[QuarantinedKind]:
    only, values = asked.sql()
    found = landed_rows(table).execute(_KINDS.format(only=only), values).fetchall()
    return [QuarantinedKind(records, first, Quarantined(*newest)) for *newest, records, first in found]


def _parts(rows: duckdb.DuckDBPyConnection, asked: _Asked) -> Iterator[_Asked]:
    """What is asked for, in parts that fit into memory."""
    only, values = asked.sql()
    for part in rows.execute(_PARTS.format(only=only, records=PART_RECORDS, bytes=PART_BYTES), values).fetchall():
        yield replace(asked, part=part)


def release(
    spark: SparkSession,
    settings: Settings,
    topic: Topic,
    offset: tuple[int, int] | None,
    why: str,
    *,
    by: str = "",
    kind: str | None = None,
) -> Released:
    """Decide again on quarantined records, with the current contracts; those that are valid now become new epochs: one
    for each 50,000 records or 64 MiB of them.

    ``offset``, ``kind``: that record, or those of that kind only; raises what ``kinds_quarantined`` raises. An epoch's
    metadata says that it is a release, ``why``, and ``by`` whom. Rows of files become loaded events. Safe to repeat: a
    released record is no longer in quarantine. A landing that runs at the same time continues after the new epochs.
    """
    table, done = open_landing(settings, topic), Released()
    kinds_quarantined(settings, topic, offset, kind)
    with run_first(settings):
        for part in list(_parts(landed_rows(table), _Asked(offset, kind))):
            done = _together(done, _release_part(spark, settings, table, topic, part, {"why": why, "by": by}))
    return done


def _release_part(
    spark: SparkSession, settings: Settings, table: DeltaTable, topic: Topic, part: _Asked, said: dict[str, str]
) -> Released:
    while True:
        table.update_incremental()
        records = [_raw(record) for record in _records(table, part)]
        if not records:
            return Released()
        try:
            return ReleaseEpoch(spark, table, asking_registry(settings, topic), records, said).land()
        except RowsChanged:
            continue
        except TryAgain as again:
            if again.code != "SCHEMA_TAKEN_IN":
                raise


def _together(one: Released, other: Released) -> Released:
    reasons = {**one.still, **other.still}
    still = {reason: one.still.get(reason, 0) + other.still.get(reason, 0) for reason in reasons}
    return Released(other.epoch or one.epoch, one.released + other.released, one.duplicates + other.duplicates, still)


def _raw(record: Quarantined) -> dict[str, Any]:
    return {
        "partition": record.partition,
        "offset": record.offset,
        "append_time": (record.append_time - _START) // timedelta(microseconds=1),
        "epoch": record.epoch,
        "key": record.key,
        "value": record.value,
        "headers": record.headers,
    }
