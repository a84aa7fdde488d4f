"""Write a landing table without Kafka: landing's decisions in plain Python, one commit per epoch.

This is a second implementation of landing's rules (see ``anabranch.ingest.landing``), naive on purpose. Proofs and
tests land events with it in milliseconds; both paths then read its decisions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa

from anabranch.ingest.landing.table.schema import DUPLICATE, QUARANTINED, VALID, landing_schema
from anabranch.ingest.landing.table.schema_growth import versions_note
from anabranch.lake import CommitMetadata, commits
from anabranch.lake.cut import Cut, Position
from anabranch.lake.files import stage_arrow
from anabranch.lake.layout import landing_table

if TYPE_CHECKING:
    from anabranch.contracts import Contract, Topic
    from anabranch.contracts.model.topics import Sources
    from anabranch.core.settings import Settings

_NONE = timedelta(0)


@dataclass(frozen=True, slots=True)
class Event:
    """One record of the log. A second one with the same ``source`` and ``id`` is a duplicate; a ``broken`` one is
    quarantined.

    ``time`` is the true event time. ``clock``: how far the device's clock is ahead. The record then carries a wrong
    time with ``senttime`` and ``receivedtime``, from which landing corrects it. ``data`` holds dates and times as
    Python objects; a missing field is null. ``version``: the contract version that it was sent with (None: the newest).
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
    """Decides about a topic's records as landing does, epoch by epoch, from the topic's start. In memory only."""

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
        """The watermark of the next epoch, W - L: an earlier event is late. None before the first event."""
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
            # Fields that its contract doesn't declare stay in the raw bytes only.
            sent_by.column: {name: value for name, value in event.data.items() if name in sent_by.fields},
        }


@dataclass
class MultiTopicDecisions:
    """``Decisions`` for several topics. Every epoch is an epoch of each topic, even if it is empty there."""

    topics: Sources

    def __post_init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self._by_topic = {topic.name: Decisions(topic) for topic in self.topics.each}

    def decide(self, events: Iterable[Event]) -> list[dict[str, Any]]:
        """The rows of the next epoch, topic by topic."""
        given = list(events)
        rows = [
            row
            for topic in self.topics.each
            for row in self._by_topic[topic.name].decide(events_of_topic(given, topic))
        ]
        self.rows += rows
        return rows

    def bound(self, event_type: str) -> datetime | None:
        """``Decisions.bound`` of the topic that carries the event type."""
        return self._by_topic[self.topics.carrier(event_type).name].bound


def contract_of(topic: Sources, event: Event) -> Contract:
    """The contract version that an event was sent with."""
    return next((c for c in topic.versions(event.type) if c.version == event.version), topic.newest(event.type))


def events_of_topic(events: Iterable[Event], topic: Topic) -> list[Event]:
    """The events that ``topic`` carries, in their order."""
    return [event for event in events if event.type in topic.event_types]


@dataclass
class Landing:
    """Lands epochs into a new table; ``rows`` holds everything that was landed, with its decisions."""

    settings: Settings
    topic: Topic

    def __post_init__(self) -> None:
        self.uri = landing_table(self.settings, self.topic.name)
        self.schema = landing_schema(self.topic)
        self.decisions = Decisions(self.topic)
        note = CommitMetadata(f"landing/{self.topic.name}", "create", Cut())
        self.table = commits.create(self.uri, self.schema, ["event_date"], note)

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
        """Lands each sequence of events as the next epoch. Returns the cut that covers them all."""
        for events in epochs:
            rows = self.decisions.decide(events)
            staged = stage_arrow(pa.Table.from_pylist(rows, self.schema), self.uri, uuid4().hex, "event_date")
            extra = {"rows": len(rows), "counts": {}, "watermark_us": None, **versions_note(self.topic)}
            note = CommitMetadata(f"landing/{self.topic.name}", f"test:{self.epoch}", self.cut, extra=extra)
            commits.append(self.table, staged, note)
        return self.cut
