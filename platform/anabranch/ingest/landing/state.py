"""The state of a landing table, from its newest commit: epoch, landed offsets, and the watermark W of the next
epoch."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Final

from deltalake import DeltaTable

from anabranch.contracts import Topic
from anabranch.contracts.model.contract_registry import check_registered, register
from anabranch.core.errors import Conflict
from anabranch.core.settings import Settings
from anabranch.ingest.landing.empty_offsets import BEGIN, COUNTS, Range, by_partition, carried_losses, losses_note
from anabranch.ingest.landing.loaded_files import Loads
from anabranch.ingest.landing.table.schema import EVENT_DATE, PROPERTIES, landing_schema
from anabranch.ingest.landing.table.schema_growth import VERSIONS, missing_columns, versions_note
from anabranch.lake import CommitMetadata, latest_commit
from anabranch.lake.commits import configure, create, widen
from anabranch.lake.cut import Cut, Position
from anabranch.lake.layout import landing_table
from anabranch.lake.optimistic import until_committed

LATENESS: Final = "lateness_us"


@dataclass(frozen=True, slots=True)
class LandingState:
    """The authoritative landing state, from the metadata of the table's newest commit.

    ``watermark_us`` is W(epoch + 1): the largest event time of all records landed so far, in microseconds; None before
    the first valid record. ``released`` counts the records that were released from quarantine. ``log`` is the broker's
    id of the topic: a topic that was deleted and created again has another one. ``begin`` is the offset that landing
    began with, if known; ``holes`` counts the offsets that were proven to hold no record; ``losses`` are
    those that were given up. ``loads``: the files. Their rows are in no other number here. ``versions``: the newest of
    each contract with several (``newest_versions``).
    """

    epoch: int
    offsets: Mapping[int, int] = field(hash=False)
    watermark_us: int | None
    released: int
    log: str = ""
    begin: Mapping[int, int] = field(default_factory=dict, hash=False)
    holes: Mapping[int, int] = field(default_factory=dict, hash=False)
    loads: Loads = field(default_factory=Loads)
    losses: tuple[Range, ...] = ()
    versions: Mapping[str, int] = field(default_factory=dict, compare=False)

    def late_before_us(self, lateness: timedelta) -> int | None:
        """Records of the next epoch with an event time below this are late."""
        return None if self.watermark_us is None else self.watermark_us - lateness // timedelta(microseconds=1)

    def unchanged(self) -> dict[str, Any]:
        """The metadata, besides the cut, of an epoch without records."""
        return {"watermark_us": self.watermark_us, **self.carried(), "rows": 0, "counts": {}}

    def carried(self) -> dict[str, Any]:
        """The metadata that each commit repeats, because older commits are deleted one day."""
        known = {BEGIN: self.begin, COUNTS: self.holes}
        kept = {name: {str(p): n for p, n in sorted(each.items())} for name, each in known.items() if each}
        kept |= {VERSIONS: dict(self.versions)} if self.versions else {}
        return {"released": self.released, "log": self.log, **kept, **self.loads.note(), **losses_note(self.losses)}


def lateness_note(topic: Topic) -> dict[str, Any]:
    """For an epoch's metadata: the L that its records were judged by. The topic's L may be changed later."""
    return {LATENESS: topic.allowed_lateness // timedelta(microseconds=1)}


def writer_of(topic: Topic) -> str:
    return f"landing/{topic.name}"


def landing_note(
    topic: Topic, batch: str, epoch: int, offsets: Mapping[int, int], extra: Mapping[str, Any]
) -> CommitMetadata:
    """Metadata of a commit to a landing table: every such commit names the epoch and the landed offsets after it."""
    return CommitMetadata(writer_of(topic), batch, Cut({topic.name: Position(epoch, offsets)}), extra=extra)


def open_landing(settings: Settings, topic: Topic) -> DeltaTable:
    """The landing table of ``topic``: created if missing, extended if its contracts have more fields than the table.

    Raises Conflict CONTRACT_CHANGED or CONTRACT_VANISHED if events have landed with another declaration of a version;
    BadDefinition LANDING_TYPES if a field exists with another type; BrokenState LANDING_SCHEMA if a column is missing
    that every landing table has.
    """
    check_registered(settings, topic)
    uri, schema = landing_table(settings, topic.name), landing_schema(topic)
    note = landing_note(topic, "create", 0, {}, {"watermark_us": None, "rows": 0})
    table = create(uri, schema, [EVENT_DATE], note, PROPERTIES)

    def attempt() -> None:
        table.update_incremental()
        grown = missing_columns(table, topic)
        register(settings, topic)  # before an event of it can land, and after every check that may reject it
        # Delta stops every stream that reads the table here; after a restart the streams continue.
        if not PROPERTIES.items() <= table.metadata().configuration.items():
            configure(table, PROPERTIES, growth_note(read_state(table, topic), topic, []))
        if grown:
            widen(table, schema, growth_note(read_state(table, topic), topic, grown))

    until_committed(writer_of(topic), attempt)
    return table


def growth_note(state: LandingState, topic: Topic, grown: Sequence[str]) -> CommitMetadata:
    """Metadata of a commit that lands no record: the epoch stays the same."""
    known = replace(state, versions=versions_note(topic).get(VERSIONS, {}))
    extra = {**known.unchanged(), "grown": list(grown)}
    return landing_note(topic, f"grow:{uuid.uuid4().hex}", state.epoch, state.offsets, extra)


def read_state(table: DeltaTable, topic: Topic) -> LandingState:
    """The state in the metadata of the table's newest commit. Raises Conflict FOREIGN_WRITER."""
    committed = latest_commit(table)
    assert committed is not None  # noqa: S101 - open_landing has created the table
    note = committed.note
    if note.writer != writer_of(topic):
        raise Conflict(
            "FOREIGN_WRITER",
            f"{table.table_uri} was last written by {note.writer}",
            state="nothing was landed",
            next_step="run one landing per home: stop the other writer, or set another ANABRANCH_HOME for this one",
        )
    position = note.cut.positions[topic.name]
    released, log = int(note.extra.get("released", 0)), str(note.extra.get("log", ""))
    begin, holes = by_partition(note.extra, BEGIN), by_partition(note.extra, COUNTS)
    w, loads = note.extra["watermark_us"], Loads.of(note.extra)
    losses, versions = carried_losses(note.extra), dict(note.extra.get(VERSIONS, {}))
    return LandingState(position.epoch, position.offsets, w, released, log, begin, holes, loads, losses, versions)
