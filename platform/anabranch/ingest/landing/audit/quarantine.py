"""Quarantine: lists records that could not be read, and releases them after the cause was fixed."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from numpy.typing import NDArray

from anabranch.contracts import Topic
from anabranch.core.errors import BadInput, TryAgain
from anabranch.core.settings import Settings
from anabranch.ingest.landing.decoding import decode, raw_frame
from anabranch.ingest.landing.duplicates import mark_duplicates
from anabranch.ingest.landing.id_hashes import duplicates_within, hashes
from anabranch.ingest.landing.loaded_files import as_loaded
from anabranch.ingest.landing.state import lateness_note, open_landing, read_state, writer_of
from anabranch.ingest.landing.table.schema import EVENT_DATE, EVENTS, IS_EVENT, VALID, epoch_build
from anabranch.ingest.landing.table.schema_growth import versions_note
from anabranch.ingest.landing.table.sql import landed_rows
from anabranch.ingest.landing.writer import SUMMARY_COLUMNS, arrow_with_epoch, summary
from anabranch.ingest.schema_registry import asking_registry
from anabranch.lake import CommitMetadata, open_table
from anabranch.lake.commits import append
from anabranch.lake.cut import Cut, Position
from anabranch.lake.files import stage_arrow
from anabranch.lake.layout import landing_table
from anabranch.lake.log.delta_tables import folder_of
from anabranch.lake.optimistic import until_committed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_UNRELEASED = """
from rows q where q.decision = 'quarantined' and not exists (
    select 1 from rows r
    where r.released_from is not null and r."partition" = q."partition" and r."offset" = q."offset")
"""
_LANDED_IDS = f"""
SELECT place FROM asked SEMI JOIN rows
ON asked.source = rows.source AND asked.event_id = rows.event_id AND rows.{IS_EVENT}
"""  # noqa: S608


@dataclass(frozen=True, slots=True)
class Quarantined:
    """One record in quarantine. ``value`` holds the bytes that the producer sent."""

    topic: str
    partition: int
    offset: int
    append_time: datetime
    epoch: int
    reason: str
    type: str | None
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] | None = None

    @property
    def kind(self) -> str:
        """What the reason begins with: ``not_json``, ``envelope``, or the field that breaks the contract."""
        return self.reason.partition(":")[0]


@dataclass(frozen=True, slots=True)
class Released:
    """The result of a release: how many records were landed, and which are still unreadable, by reason."""

    epoch: int | None
    released: int
    duplicates: int
    still: dict[str, int]


def list_quarantined(settings: Settings, topic: Topic, offset: tuple[int, int] | None = None) -> list[Quarantined]:
    """The records in quarantine that were not released, ordered by (partition, offset)."""
    table = open_table(landing_table(settings, topic.name))
    if table is None:
        return []
    columns = 'q.topic, q."partition", q."offset", q.append_time, q.epoch, q.reason, q.type, q.key, q.value'
    rows = landed_rows(table)
    headers = "q.headers" if "headers" in rows.table("rows").columns else "null"  # older files have none
    only = 'and q."partition" = ? and q."offset" = ?' if offset else ""
    found = rows.execute(f"select {columns}, {headers} {_UNRELEASED} {only} order by 2, 3", list(offset or ()))
    return [replace(Quarantined(*row[:-1]), headers=_pairs(row[-1])) for row in found.fetchall()]


def _pairs(headers: list[dict[str, Any]] | None) -> tuple[tuple[str, bytes | None], ...] | None:
    return None if headers is None else tuple((header["key"], header["value"]) for header in headers)


def find_quarantined(
    settings: Settings, topic: Topic, offset: tuple[int, int] | None = None, kind: str | None = None
) -> list[Quarantined]:
    """``list_quarantined``, of one ``kind`` only if given. Raises BadInput NOT_QUARANTINED if no record has the
    ``offset`` and ``kind`` that are asked for."""
    found = list_quarantined(settings, topic, offset)
    records = [record for record in found if kind in (None, record.kind)]
    if records or (offset is None and kind is None):
        return records
    asked = topic.name if offset is None else f"{topic.name}/{offset[0]}:{offset[1]}"
    raise BadInput(
        "NOT_QUARANTINED",
        f"{asked} is not in quarantine{'' if kind is None else f' as {kind!a}'}",
        state="nothing was changed" + (f"; kinds there: {', '.join(sorted({r.kind for r in found}))}" if found else ""),
        next_step=f"list what is: anabranch quarantine list {topic.name}",
    )


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
    """Decide again on quarantined records, with the current contracts; those that are valid now become a new epoch.

    ``offset``, ``kind``: that record, or those of that kind only; raises what ``find_quarantined`` raises. The epoch's
    metadata says that it is a release, ``why``, and ``by`` whom. Rows of files become loaded events. Safe to repeat: a
    released record is no longer in quarantine. A landing that runs at the same time continues after the new epoch.
    """
    table = open_landing(settings, topic)

    def attempt() -> Released:
        table.update_incremental()
        records = find_quarantined(settings, topic, offset, kind)
        return _release(spark, table, asking_registry(settings, topic), records, {"why": why, "by": by})

    while True:
        try:
            return until_committed(writer_of(topic), attempt)
        except TryAgain as again:
            if again.code != "SCHEMA_TAKEN_IN":
                raise


def _release(
    spark: SparkSession, table: DeltaTable, topic: Topic, records: list[Quarantined], said: dict[str, str]
) -> Released:
    if not records:
        return Released(None, 0, 0, {})
    before = read_state(table, topic)
    decided = decode(raw_frame(spark, topic, [_raw(r) for r in records]), topic).toArrow()
    rows = arrow_with_epoch(decided, before, topic)
    rows = as_loaded(mark_duplicates(rows, _landed_before(table, rows)))
    came_from = {(r.partition, r.offset): r.epoch for r in records}
    readable = rows.filter(pc.not_equal(rows["decision"], "quarantined"))
    still: dict[str, int] = {}
    for reason in rows["reason"].to_pylist():
        if reason:
            still[reason] = still.get(reason, 0) + 1
    if readable.num_rows == 0:
        return Released(None, 0, 0, still)
    coordinates = zip(readable["partition"].to_pylist(), readable["offset"].to_pylist(), strict=True)
    origin = pa.array([came_from[c] for c in coordinates], pa.int64())
    readable = readable.set_column(readable.schema.get_field_index("released_from"), "released_from", origin)
    valid = sum(d in EVENTS for d in readable["decision"].to_pylist())
    epoch = before.epoch + 1
    extra: dict[str, Any] = summary(readable.select(SUMMARY_COLUMNS), before)
    extra |= {**lateness_note(topic), **versions_note(topic)}
    extra |= {"released": before.released + valid, "release": {**said, "records": readable.num_rows}}
    staged = stage_arrow(readable, str(folder_of(table)), epoch_build(epoch), EVENT_DATE)
    cut = Cut({topic.name: Position(epoch, before.offsets)})
    append(table, staged, CommitMetadata(writer_of(topic), f"release:{uuid.uuid4().hex}", cut, extra=extra))
    return Released(epoch, valid, readable.num_rows - valid, still)


def _landed_before(table: DeltaTable, rows: pa.Table) -> NDArray[np.bool_]:
    """Which of the valid ``rows`` repeat an event of the table, of any age, or one another: two copies of an event may
    be in quarantine, and the first of them is the event."""
    repeated = np.zeros(rows.num_rows, np.bool_)
    places = pc.indices_nonzero(pc.equal(rows["decision"], VALID)).to_numpy()
    valid = rows.take(places)
    with landed_rows(table) as connection:
        connection.register("asked", valid.select(["source", "event_id"]).append_column("place", pa.array(places)))
        known = connection.execute(_LANDED_IDS).fetchnumpy()["place"]
    repeated[places] = duplicates_within(valid, hashes(valid))
    repeated[known] = True
    return repeated


def _raw(record: Quarantined) -> dict[str, Any]:
    micros = int(record.append_time.timestamp() * 1_000_000)
    return {
        "partition": record.partition,
        "offset": record.offset,
        "append_time": micros,
        "key": record.key,
        "value": record.value,
        "headers": record.headers,
    }
