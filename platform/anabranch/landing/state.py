"""What a landing table says of itself: the newest epoch, the offsets landed, and the watermark W of the next epoch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

import pyarrow as pa
from deltalake import DeltaTable

from anabranch.errors import BrokenState, Conflict
from anabranch.events import Topic
from anabranch.landing.schema import PARTITION, landing_schema
from anabranch.settings import Settings
from anabranch.tables import Cut, Note, Position, create, newest
from anabranch.tables.layout import landing_table


@dataclass(frozen=True, slots=True)
class Landed:
    """The truth about what was landed, from the newest note of the table.

    ``watermark_us`` is W(epoch + 1): the largest event time of all records landed so far, in microseconds;
    None before the first valid record. ``released`` counts the records that were released from quarantine.
    """

    epoch: int
    offsets: Mapping[int, int] = field(hash=False)
    watermark_us: int | None
    released: int

    def late_before_us(self, lateness: timedelta) -> int | None:
        """Records of the next epoch with an event time below this are late."""
        return None if self.watermark_us is None else self.watermark_us - lateness // timedelta(microseconds=1)


def writer_of(topic: Topic) -> str:
    return f"landing/{topic.name}"


def open_landing(settings: Settings, topic: Topic) -> DeltaTable:
    """The landing table of ``topic``, made when it isn't there. BrokenState LANDING_SCHEMA when it lacks a field."""
    uri = landing_table(settings, topic.name)
    schema = landing_schema(topic)
    note = Note(writer_of(topic), "create", Cut({topic.name: Position(0, {})}), extra={"watermark_us": None, "rows": 0})
    table = create(uri, schema, [PARTITION], note)
    known = pa.schema(table.schema().to_arrow())
    missing = [f.name for f in schema if f.name not in known.names]
    structs = [f for f in schema if f.name in known.names and pa.types.is_struct(f.type)]
    # Readers would never see a field that the table's own struct doesn't have.
    missing += [f"{f.name}.{child.name}" for f in structs for child in f.type if not _has(known, f.name, child.name)]
    if missing:
        raise BrokenState(
            "LANDING_SCHEMA",
            f"{uri} has no columns {missing}",
            state="nothing was landed",
            next_step="the topic's contracts have grown; widen the table first",
        )
    return table


def _has(schema: pa.Schema, struct: str, child: str) -> bool:
    kind = schema.field(struct).type
    return bool(pa.types.is_struct(kind)) and bool(kind.get_field_index(child) >= 0)


def landed(table: DeltaTable, topic: Topic) -> Landed:
    """The state that the newest note of the table names."""
    committed = newest(table)
    assert committed is not None  # noqa: S101 - open_landing has made the table
    note = committed.note
    if note.writer != writer_of(topic):
        raise Conflict("FOREIGN_WRITER", f"{table.table_uri} was last written by {note.writer}", state="nothing landed")
    position = note.cut.positions[topic.name]
    return Landed(position.epoch, position.offsets, note.extra["watermark_us"], int(note.extra.get("released", 0)))
