"""The data model of a proof's log: steps of epochs of events, and the faults between the steps."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any

from anabranch.ingest.landing.table.schema import VALID
from anabranch.testing._fake_landing import Event, MultiTopicDecisions
from anabranch.views.selection.inputs import view_watermark

if TYPE_CHECKING:
    from anabranch.contracts.model.topics import Sources
    from anabranch.views import View


class Fault(StrEnum):
    """What happens to the stream after it has caught up with a step. The names are stored in replay files."""

    GO_ON = "the stream is restarted"
    REPEAT = "it crashes after the commit and before the checkpoint: the batch is repeated"
    LOSE = "its checkpoint is lost: the state is rebuilt"
    RETURN = "it restarts from a savepoint: a copy of its checkpoint from before this start, with older state"


@dataclass(frozen=True, slots=True)
class Step:
    """The epochs that one start of the stream processes, and the fault after that."""

    epochs: tuple[tuple[Event, ...], ...]
    then: Fault = Fault.GO_ON


@dataclass(frozen=True)
class Log:
    """Everything that is needed to repeat a run exactly."""

    steps: tuple[Step, ...]

    @property
    def epochs(self) -> tuple[tuple[Event, ...], ...]:
        return tuple(epoch for step in self.steps for epoch in step.epochs)

    @cached_property
    def events(self) -> tuple[Event, ...]:
        return tuple(event for epoch in self.epochs for event in epoch)

    def landed(self, topics: Sources) -> list[dict[str, Any]]:
        """The landing rows of the log, with landing's decisions."""
        decisions = MultiTopicDecisions(topics)
        for epoch in self.epochs:
            decisions.decide(epoch)
        return decisions.rows

    def only(self, places: Collection[int]) -> Log:
        """The log with only the events at these positions; epochs and steps that become empty are removed."""
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
        """The same log with other events at the same positions."""
        given = iter(events)
        steps = (
            replace(step, epochs=tuple(tuple(next(given) for _ in epoch) for epoch in step.epochs))
            for step in self.steps
        )
        return Log(tuple(steps))

    @property
    def flat(self) -> Log:
        """All events in one epoch, without faults."""
        return Log((Step((self.events,)),))


def valid(rows: Sequence[dict[str, Any]], view: View, *, late: bool) -> list[dict[str, Any]]:
    """The landed rows that are the view's input, as ``views.selection.inputs.events_of`` selects them in Spark."""
    wanted = set(view.events)
    late = late or view.kappa
    return [r for r in rows if r["decision"] == VALID and r["type"] in wanted and (late or not r["late"])]


def watermark(rows: Sequence[dict[str, Any]], view: View, topics: Sources) -> datetime | None:
    """The watermark ``W - L`` after these landed rows, the earliest of all topics, as
    ``views.selection.inputs.watermark_of``."""
    reached = []
    for topic in topics.each:
        times = [r["event_time"] for r in rows if r["topic"] == topic.name and r["event_time"] is not None]
        reached.append(max(times) - topic.allowed_lateness if times else None)
    return None if None in reached else view_watermark(view, min(time for time in reached if time is not None))


def as_dicts(rows: Sequence[dict[str, Any]], topics: Sources) -> Iterator[dict[str, Any]]:
    """Landed rows as an oracle gets them: the fields of the data, ``type`` and the envelope columns.

    Events are passed as they were sent, not upcast: for a type with several contract versions the fields of all
    versions, null except for those of the event's own ``contract_version``. So the oracle checks the upcasters too.
    """
    for row in rows:
        versions = topics.versions(row["type"])
        data = {name: row[c.column].get(name) for c in versions for name in c.fields}
        envelope = {name: row[name] for name in ("type", "event_time", "event_id", "source", "subject")}
        envelope |= {"contract_version": row["contract_version"]} if len(versions) > 1 else {}
        yield {**data, **envelope, "log_partition": row["partition"], "log_offset": row["offset"]}
