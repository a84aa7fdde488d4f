"""A log as a proof draws, shrinks and replays it: steps of epochs of events, and what happens between them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any

from anabranch.ingest.landing.schema import VALID
from anabranch.testing.fake_landing import Event, Together
from anabranch.views.inputs import view_watermark

if TYPE_CHECKING:
    from anabranch.contracts import Sources
    from anabranch.views import View


class Fault(StrEnum):
    """What befalls the stream after it has caught up with a step."""

    GO_ON = "the stream is started again"
    REPEAT = "it crashes before its checkpoint knows of the commit: the batch comes again"
    LOSE = "its checkpoint is lost: the state is built again"
    RETURN = "it goes on from a savepoint: a copy of its checkpoint from before this start, with older state"


@dataclass(frozen=True, slots=True)
class Step:
    """Epochs that one start of the stream finds, and what befalls it afterwards."""

    epochs: tuple[tuple[Event, ...], ...]
    then: Fault = Fault.GO_ON


@dataclass(frozen=True)
class Log:
    """Everything that a proof needs to be run again, exactly."""

    steps: tuple[Step, ...]

    @property
    def epochs(self) -> tuple[tuple[Event, ...], ...]:
        return tuple(epoch for step in self.steps for epoch in step.epochs)

    @cached_property
    def events(self) -> tuple[Event, ...]:
        return tuple(event for epoch in self.epochs for event in epoch)

    def landed(self, topics: Sources) -> list[dict[str, Any]]:
        """The landing rows that become of it."""
        decisions = Together(topics)
        for epoch in self.epochs:
            decisions.decide(epoch)
        return decisions.rows

    def only(self, places: Collection[int]) -> Log:
        """The log of these events alone; epochs and steps that lose all their events go, too."""
        kept, place, steps = set(places), 0, []
        for step in self.steps:
            epochs = []
            for epoch in step.epochs:
                left = tuple(e for i, e in enumerate(epoch, place) if i in kept)
                place += len(epoch)
                epochs += [left] if left else []
            steps += [replace(step, epochs=tuple(epochs))] if epochs else []
        return Log(tuple(steps))

    def with_events(self, events: Sequence[Event]) -> Log:
        """The same log with other events in the same places."""
        given = iter(events)
        steps = (
            replace(step, epochs=tuple(tuple(next(given) for _ in epoch) for epoch in step.epochs))
            for step in self.steps
        )
        return Log(tuple(steps))

    @property
    def flat(self) -> Log:
        """All events in one epoch, and nothing happens."""
        return Log((Step((self.events,)),))


def valid(rows: Sequence[dict[str, Any]], view: View, *, late: bool) -> list[dict[str, Any]]:
    """The landed rows that ``view`` is a function of; see ``views.inputs.events_of``, which says it for Spark."""
    wanted = set(view.events)
    late = late or view.kappa
    return [r for r in rows if r["decision"] == VALID and r["type"] in wanted and (late or not r["late"])]


def watermark(rows: Sequence[dict[str, Any]], view: View, topics: Sources) -> datetime | None:
    """``W - L`` behind these landed rows, the earliest of all topics; see ``views.inputs.watermark_of``."""
    reached = []
    for topic in topics.each:
        times = [r["event_time"] for r in rows if r["topic"] == topic.name and r["event_time"] is not None]
        reached.append(max(times) - topic.allowed_lateness if times else None)
    return None if None in reached else view_watermark(view, min(time for time in reached if time is not None))


def as_dicts(rows: Sequence[dict[str, Any]], topics: Sources) -> Iterator[dict[str, Any]]:
    """Landed rows as an oracle sees them: the fields of the data beside ``type`` and the envelope's columns.

    As they were sent: of a type with several versions the fields of all of them, null but for those of the
    event's own ``contract_version``. An upcaster is a reading of the old events too, which the oracle has to check.
    """
    for row in rows:
        versions = topics.versions(row["type"])
        data = {name: row[c.column].get(name) for c in versions for name in c.fields}
        envelope = {name: row[name] for name in ("type", "event_time", "event_id", "source", "subject")}
        envelope |= {"contract_version": row["contract_version"]} if len(versions) > 1 else {}
        yield {**data, **envelope, "log_partition": row["partition"], "log_offset": row["offset"]}
