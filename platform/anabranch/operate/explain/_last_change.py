"""Finds what changed a row last, and why: the epoch, the commit that brought it into the table, and its events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from anabranch.core.text.quantities import counted
from anabranch.lake import Commit, commit_history
from anabranch.operate.explain._candidates import LandedEvent, Row
from anabranch.operate.explain._contributions import Change, changes
from anabranch.operate.explain._evaluator import EventSet
from anabranch.operate.explain._served_row import Source, time_of
from anabranch.serve.half_choice import BATCH


@dataclass(frozen=True, slots=True)
class LastChange:
    """``epoch`` is the newest epoch of the events behind the row. ``events`` are the events of that epoch, or the late
    ones that a reprocess included. ``commit`` is the batch that brought them into the half that serves the row, and
    ``table_version`` its version there; None if the table's log no longer holds that commit. ``before``: for a batch
    half, how the cells differ in the speed half's row, which has no late events."""

    epoch: int | None
    why: str
    events: tuple[LandedEvent, ...] = field(hash=False)
    commit: str | None = None
    table_version: int | None = None
    committed: datetime | None = None
    before: tuple[Change, ...] = field(hash=False, default=())

    @property
    def with_late(self) -> bool:
        return any(event.late for event in self.events)


def last_change(
    uri: str, source: Source, row: Row, events: Sequence[LandedEvent], behind: EventSet, speed: Row | None
) -> LastChange:
    """``speed``: the speed half's row of the same key, if batch serves the row."""
    mine = [events[place] for place in sorted(behind)]
    topic, newest = _newest(mine)
    brought = tuple(event for event in mine if (event.topic, event.epoch) == (topic, newest))
    if source.half == BATCH:
        late = tuple(event for event in mine if event.late)
        before = changes(row, speed) if speed is not None else ()
        at = (f"reprocess {source.run}", source.table_version, source.committed)
        if late:
            alone = "" if speed is not None else "; the speed half has no such row"
            return LastChange(newest, f"it included {counted(len(late), 'late event')}{alone}", late, *at, before)
        why = f"it includes no late event; the newest are {counted(len(brought), 'event')} of {topic}@{newest}"
        return LastChange(newest, why, brought, *at, before)
    if newest is None:
        return LastChange(None, "no event behind it was found", ())
    commit = first_commit(uri, topic, newest)
    why = f"{counted(len(brought), 'new event')} of {topic}@{newest}"
    if commit is None:
        return LastChange(newest, why, brought)
    if commit.note.cut.epoch(topic) > newest and _rewritten(commit):
        why += ", in a commit that rewrote the whole table"
    return LastChange(newest, why, brought, commit.note.batch, commit.version, time_of(commit))


def _newest(events: Sequence[LandedEvent]) -> tuple[str, int | None]:
    """The topic with the most recently appended event, and the newest epoch among that topic's events."""
    last = max(events, key=lambda event: event.append_time or event.event_time, default=None)
    if last is None:
        return "", None
    return last.topic, max(event.epoch for event in events if event.topic == last.topic)


def first_commit(uri: str, topic: str, epoch: int) -> Commit | None:
    """The oldest commit that covers ``epoch``; None if it may be older than the table's log."""
    found = None
    for committed in commit_history(uri):
        if committed.note.cut.epoch(topic) < epoch:
            return found
        found = committed
    return found


def _rewritten(commit: Commit) -> bool:
    """Whether this is a stream's first batch, which holds everything that had landed by then."""
    return commit.note.batch.endswith(":0")


def as_json(change: LastChange) -> Mapping[str, Any]:
    return {
        "epoch": change.epoch,
        "why": change.why,
        "events": [str(event) for event in change.events],
        "commit": change.commit,
        "table_version": change.table_version,
        "committed": change.committed,
        "without_late_events": {c.column: c.without for c in change.before},
    }
