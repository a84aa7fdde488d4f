"""A landing table without Kafka: the decisions of landing in plain Python, one commit per epoch.

This is the second reading of landing's rules (see ``anabranch.ingest.landing``), naive on purpose: proofs and tests
land with it in milliseconds, and what it decides is what both paths are then given.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa

from anabranch import lake
from anabranch.ingest.landing.schema import DUPLICATE, QUARANTINED, VALID, landing_schema
from anabranch.ingest.landing.schema_growth import versions_note
from anabranch.lake import CommitMetadata, Cut, Position
from anabranch.lake.layout import landing_table

if TYPE_CHECKING:
    from anabranch.contracts import Contract, Sources, Topic
    from anabranch.core.settings import Settings

_NONE = timedelta(0)


@dataclass(frozen=True, slots=True)
class Event:
    """One record of the log. The same ``source`` and ``id`` again is a duplicate; a broken one is quarantined.

    ``time`` is when it happened in truth. ``clock`` is how far the device's clock is ahead of that: the record then
    carries a wrong ``time`` with a ``senttime`` and a ``receivedtime``, from which landing finds ``time`` again.
    ``data`` holds dates and times as such; a field that isn't there is null. ``version`` is that of the contract it was
    sent by, the newest one where it is None.
    """

    type: str
    time: datetime
    id: str
    data: dict[str, Any] = field(default_factory=dict)
    partition: int = 0
    broken: bool = False
    source: str = "test"
    subject: str = ""
    clock: timedelta = _NONE
    version: int | None = None


@dataclass
class Decisions:
    """What landing decides about a topic's records, epoch by epoch, from the topic's beginning. Touches no disk."""

    topic: Topic

    def __post_init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.epoch = 0
        self._offsets = dict.fromkeys(range(self.topic.partitions), 0)
        self._newest: datetime | None = None
        self._ids: set[tuple[str, str]] = set()

    def decide(self, events: Iterable[Event]) -> list[dict[str, Any]]:
        """The rows of the next epoch."""
        self.epoch += 1
        bound = self.bound
        rows = [self._row(event, bound) for event in events]
        times = [row["event_time"] for row in rows if row["event_time"] is not None]
        self._newest = max([*times, *([self._newest] if self._newest else [])], default=None)
        self.rows += rows
        return rows

    @property
    def bound(self) -> datetime | None:
        """What the next epoch is held to, W - L: an earlier event is late. None before the first event."""
        return None if self._newest is None else self._newest - self.topic.allowed_lateness

    @property
    def cut(self) -> Cut:
        return Cut({self.topic.name: Position(self.epoch, dict(self._offsets))})

    def _row(self, event: Event, bound: datetime | None) -> dict[str, Any]:
        identity = (event.source, event.id)
        decision = QUARANTINED if event.broken else DUPLICATE if identity in self._ids else VALID
        self._ids |= {identity} if decision == VALID else set()
        offset = self._offsets[event.partition]
        self._offsets[event.partition] += 1
        row = {
            "topic": self.topic.name,
            "partition": event.partition,
            "offset": offset,
            "append_time": event.time,
            "value": b"{}",
            "epoch": self.epoch,
            "decision": decision,
            "reason": "test: broken on purpose" if event.broken else None,
            "late": None,
            "event_time": None,
            "event_date": event.time.astimezone(UTC).date(),
        }
        if event.broken:
            return row
        device_time = event.time + event.clock
        sent, received = (device_time, event.time) if event.clock else (None, None)
        event_time = device_time + (received - sent) if sent and received else device_time
        sent_by = contract_of(self.topic, event)
        return {
            **row,
            "late": (bound is not None and event_time < bound) if decision == VALID else None,
            "event_time": event_time,
            "device_time": device_time,
            "senttime": sent,
            "receivedtime": received,
            "event_id": event.id,
            "source": event.source,
            "type": event.type,
            "subject": event.subject or event.id,
            "contract_version": sent_by.version,
            # What its contract doesn't know stays in the raw bytes only.
            sent_by.column: {name: value for name, value in event.data.items() if name in sent_by.fields},
        }


@dataclass
class Together:
    """The decisions about the records of several topics. Every epoch is one of each of them, empty or not."""

    topics: Sources

    def __post_init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self._each = {topic.name: Decisions(topic) for topic in self.topics.each}

    def decide(self, events: Iterable[Event]) -> list[dict[str, Any]]:
        """The rows of the next epoch, topic by topic."""
        given = list(events)
        rows = [row for topic in self.topics.each for row in self._each[topic.name].decide(carried(given, topic))]
        self.rows += rows
        return rows

    def bound(self, event_type: str) -> datetime | None:
        """As ``Decisions.bound``, for the topic that carries the type."""
        return self._each[self.topics.carrier(event_type).name].bound


def contract_of(topic: Sources, event: Event) -> Contract:
    """The contract that an event was sent by."""
    return next((c for c in topic.versions(event.type) if c.version == event.version), topic.newest(event.type))


def carried(events: Iterable[Event], topic: Topic) -> list[Event]:
    """Those of ``events`` that ``topic`` carries, in their order."""
    return [event for event in events if event.type in topic.event_types]


@dataclass
class Landing:
    """Lands epochs into a table, from its beginning; ``rows`` is all that was landed, as it was decided."""

    settings: Settings
    topic: Topic

    def __post_init__(self) -> None:
        self.uri = landing_table(self.settings, self.topic.name)
        self.schema = landing_schema(self.topic)
        self.decisions = Decisions(self.topic)
        note = CommitMetadata(f"landing/{self.topic.name}", "create", Cut())
        self.table = lake.create(self.uri, self.schema, ["event_date"], note)

    @property
    def rows(self) -> list[dict[str, Any]]:
        return self.decisions.rows

    @property
    def epoch(self) -> int:
        return self.decisions.epoch

    @property
    def cut(self) -> Cut:
        return self.decisions.cut

    def land(self, *epochs: Sequence[Event]) -> Cut:
        """Each sequence of events becomes the next epoch; returns the cut that covers them all."""
        for events in epochs:
            rows = self.decisions.decide(events)
            staged = lake.stage_arrow(pa.Table.from_pylist(rows, self.schema), self.uri, uuid4().hex, "event_date")
            extra = {"rows": len(rows), "counts": {}, "watermark_us": None, **versions_note(self.topic)}
            note = CommitMetadata(f"landing/{self.topic.name}", f"test:{self.epoch}", self.cut, extra=extra)
            lake.append(self.table, staged, note)
        return self.cut
