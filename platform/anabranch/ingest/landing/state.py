"""What a landing table says of itself: the newest epoch, the offsets landed, and the watermark W of the next epoch."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from anabranch.contracts import Topic
from anabranch.contracts.contract_registry import check_kept, register
from anabranch.core.errors import Conflict
from anabranch.core.settings import Settings
from anabranch.ingest.landing.empty_offsets import BEGIN, COUNTS, numbers
from anabranch.ingest.landing.schema import EVENT_DATE, PROPERTIES, landing_schema
from anabranch.ingest.landing.schema_growth import missing_columns, versions_note
from anabranch.lake import CommitMetadata, Cut, Position, configure, create, latest_commit, widen
from anabranch.lake.layout import landing_table
from anabranch.lake.optimistic import until_committed
from deltalake import DeltaTable

LATENESS: Final = "lateness_us"


@dataclass(frozen=True, slots=True)
class LandingState:
    """The truth about what was landed, from the newest note of the table.

    ``watermark_us`` is W(epoch + 1): the largest event time of all records landed so far, in microseconds;
    None before the first valid record. ``released`` counts the records that were released from quarantine. ``log`` is
    the id that the broker has given the topic: one that was deleted and made again has another. ``begin`` is the offset
    that landing began with, where it is known; ``holes`` counts the offsets that were proven to hold no record.
    """

    epoch: int
    offsets: Mapping[int, int] = field(hash=False)
    watermark_us: int | None
    released: int
    log: str = ""
    begin: Mapping[int, int] = field(default_factory=dict, hash=False)
    holes: Mapping[int, int] = field(default_factory=dict, hash=False)

    def late_before_us(self, lateness: timedelta) -> int | None:
        """Records of the next epoch with an event time below this are late."""
        return None if self.watermark_us is None else self.watermark_us - lateness // timedelta(microseconds=1)

    def unchanged(self) -> dict[str, Any]:
        """What the note of an epoch without a record says beside its cut."""
        return {"watermark_us": self.watermark_us, **self.carried(), "rows": 0, "counts": {}}

    def carried(self) -> dict[str, Any]:
        """What each note says again: older ones are deleted one day."""
        known = {BEGIN: self.begin, COUNTS: self.holes}
        kept = {name: {str(p): n for p, n in sorted(said.items())} for name, said in known.items() if said}
        return {"released": self.released, "log": self.log, **kept}


def lateness_note(topic: Topic) -> dict[str, Any]:
    """For the note of an epoch: the L that its records were held to. A topic may be given another one later."""
    return {LATENESS: topic.allowed_lateness // timedelta(microseconds=1)}


def writer_of(topic: Topic) -> str:
    return f"landing/{topic.name}"


def open_landing(settings: Settings, topic: Topic) -> DeltaTable:
    """The landing table of ``topic``: made when it isn't there, grown when its contracts know more fields than it.

    Conflict CONTRACT_CHANGED or CONTRACT_VANISHED when events have landed by another declaration of a version;
    BadDefinition LANDING_TYPES when a field is there as another type; BrokenState LANDING_SCHEMA when a column is
    missing that every landing table has.
    """
    check_kept(settings, topic)
    uri, schema = landing_table(settings, topic.name), landing_schema(topic)
    note = CommitMetadata(
        writer_of(topic), "create", Cut({topic.name: Position(0, {})}), extra={"watermark_us": None, "rows": 0}
    )
    table = create(uri, schema, [EVENT_DATE], note, PROPERTIES)

    def attempt() -> None:
        table.update_incremental()
        grown = missing_columns(table, topic)
        register(settings, topic)  # before an event can land by it, behind everything that refuses it
        # Delta stops every stream that reads the table here; started again, it goes on.
        if not PROPERTIES.items() <= table.metadata().configuration.items():
            configure(table, PROPERTIES, growth_note(read_state(table, topic), topic, []))
        if grown:
            widen(table, schema, growth_note(read_state(table, topic), topic, grown))

    until_committed(writer_of(topic), attempt)
    return table


def growth_note(state: LandingState, topic: Topic, grown: Sequence[str]) -> CommitMetadata:
    """The same epoch as before: no record lands by it."""
    extra = {**state.unchanged(), "grown": list(grown), **versions_note(topic)}
    cut = Cut({topic.name: Position(state.epoch, state.offsets)})
    return CommitMetadata(writer_of(topic), f"grow:{uuid.uuid4().hex}", cut, extra=extra)


def read_state(table: DeltaTable, topic: Topic) -> LandingState:
    """The state that the newest note of the table names."""
    committed = latest_commit(table)
    assert committed is not None  # noqa: S101 - open_landing has made the table
    note = committed.note
    if note.writer != writer_of(topic):
        raise Conflict(
            "FOREIGN_WRITER",
            f"{table.table_uri} was last written by {note.writer}",
            state="nothing landed",
            next_step="one landing per home: end the other writer, or give this one a home of its own (ANABRANCH_HOME)",
        )
    position = note.cut.positions[topic.name]
    released, log = int(note.extra.get("released", 0)), str(note.extra.get("log", ""))
    begin, holes = numbers(note.extra, BEGIN), numbers(note.extra, COUNTS)
    return LandingState(position.epoch, position.offsets, note.extra["watermark_us"], released, log, begin, holes)
