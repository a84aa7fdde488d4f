"""A landing table without Kafka: the decisions of landing in plain Python, one commit per epoch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import uuid4

import pyarrow as pa
from anabranch import tables
from anabranch.events import Topic
from anabranch.events.declarations import load_declarations
from anabranch.landing.schema import DUPLICATE, QUARANTINED, VALID, landing_schema
from anabranch.settings import Settings, project_root
from anabranch.tables import Cut, Note, Position
from anabranch.tables.layout import landing_table
from anabranch.views import Registry, load_views

DECLARED = load_declarations(project_root() / "spark_jobs" / "contracts")
FLIGHTS = DECLARED.topic("flights")


def sample_views() -> Registry:
    return load_views(project_root() / "spark_jobs" / "views", DECLARED)


@dataclass(frozen=True, slots=True)
class Event:
    """One record of the log. The same ``id`` again is a duplicate; a broken one is quarantined."""

    type: str
    time: datetime
    id: str
    data: dict[str, Any] = field(default_factory=dict)
    partition: int = 0
    broken: bool = False


@dataclass
class Landing:
    """Lands epochs into a table, from its beginning; ``rows`` is all that was landed, as it was decided."""

    settings: Settings
    topic: Topic = FLIGHTS

    def __post_init__(self) -> None:
        self.uri = landing_table(self.settings, self.topic.name)
        self.schema = landing_schema(self.topic)
        self.rows: list[dict[str, Any]] = []
        self.epoch = 0
        self._offsets = dict.fromkeys(range(self.topic.partitions), 0)
        self._newest: datetime | None = None
        self._ids: set[str] = set()
        note = Note(f"landing/{self.topic.name}", "create", Cut())
        self.table = tables.create(self.uri, self.schema, ["event_date"], note)

    def land(self, *epochs: Sequence[Event]) -> Cut:
        """Each sequence of events becomes the next epoch; returns the cut that covers them all."""
        for events in epochs:
            self.epoch += 1
            bound = None if self._newest is None else self._newest - self.topic.allowed_lateness
            rows = [self._row(event, bound) for event in events]
            times = [row["event_time"] for row in rows if row["event_time"] is not None]
            self._newest = max([*times, *([self._newest] if self._newest else [])], default=None)
            self.rows += rows
            staged = tables.stage_arrow(pa.Table.from_pylist(rows, self.schema), self.uri, uuid4().hex, "event_date")
            extra = {"rows": len(rows), "counts": {}, "watermark_us": None}
            note = Note(f"landing/{self.topic.name}", f"test:{self.epoch}", self.cut, extra=extra)
            tables.append(self.table, staged, note)
        return self.cut

    @property
    def cut(self) -> Cut:
        return Cut({self.topic.name: Position(self.epoch, dict(self._offsets))})

    def _row(self, event: Event, bound: datetime | None) -> dict[str, Any]:
        decision = QUARANTINED if event.broken else DUPLICATE if event.id in self._ids else VALID
        self._ids |= {event.id} if decision == VALID else set()
        offset = self._offsets[event.partition]
        self._offsets[event.partition] += 1
        time = None if event.broken else event.time
        row = {
            "topic": self.topic.name,
            "partition": event.partition,
            "offset": offset,
            "append_time": event.time,
            "value": b"{}",
            "epoch": self.epoch,
            "decision": decision,
            "late": (bound is not None and event.time < bound) if decision == VALID else None,
            "event_time": time,
            "event_date": event.time.date(),
        }
        if event.broken:
            return row
        typed = {self.topic.newest(event.type).column: event.data}
        return {**row, "event_id": event.id, "source": "test", "type": event.type, "subject": event.id, **typed}
