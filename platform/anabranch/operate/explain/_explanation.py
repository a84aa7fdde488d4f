"""The result of explaining a row: the row, its source, the events behind it, its last change, and a comparison."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from anabranch.lake.cut import Cut
from anabranch.operate.explain import _last_change
from anabranch.operate.explain._candidates import LandedEvent, Row
from anabranch.operate.explain._contributions import Change, Effect
from anabranch.operate.explain._last_change import LastChange
from anabranch.operate.explain._served_row import Source


@dataclass(frozen=True, slots=True)
class Part:
    """One event behind a row. ``effect`` is None if it wasn't computed. Removing an ``idle`` event changes nothing,
    even together with all other idle ones: other events have the same values, or later ones override it."""

    event: LandedEvent
    effect: Effect | None
    idle: bool

    def to_json(self) -> dict[str, Any]:
        event, effect = self.event, self.effect
        return {
            "topic": event.topic,
            "partition": event.partition,
            "offset": event.offset,
            "type": event.type,
            "event_time": event.event_time,
            "append_time": event.append_time,
            "epoch": event.epoch,
            "late": event.late,
            "contract_version": event.contract_version,
            "event_id": event.event_id,
            "data": dict(event.data),
            "idle": self.idle,
            "effect": None if effect is None else _effect(effect),
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    """The same key at another cut or in another version. ``cells``: those that differ, ``with_it`` here and ``without``
    there. ``only_here`` and ``only_there`` are the events behind only one of the rows, ``shared`` counts the events
    behind both. ``definition`` is a line diff of the definitions (there to here)."""

    version: int
    cut: Cut
    row: Row | None = field(hash=False)
    verified: bool
    cells: tuple[Change, ...]
    only_here: tuple[LandedEvent, ...]
    only_there: tuple[LandedEvent, ...]
    shared: int
    definition: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "version": self.version,
            "cut": self.cut.to_json(),
            "row": None if self.row is None else dict(self.row),
            "verified": self.verified,
            "cells": [{"column": c.column, "here": c.with_it, "there": c.without} for c in self.cells],
            "events_only_here": [str(event) for event in self.only_here],
            "events_only_there": [str(event) for event in self.only_there],
            "events_shared": self.shared,
            "definition": list(self.definition),
        }


@dataclass(frozen=True, slots=True)
class Explanation:
    """One row of a view, explained.

    ``source`` is None for a row at a requested cut: no table holds that row, the function computed it. ``late``: late
    events are included. ``verified``: the view's function over only ``parts`` gives the row. ``finished``: the search
    for events that have no part was completed; otherwise the time budget was used up. ``complete``: all events in the
    reach of the row's partition were candidates. ``seconds``: the time taken; ``runs``: runs of the view's function, in
    ``jobs`` Spark jobs.

    ``tested``: the function has run over events behind the row; if not, ``verified`` is false and says nothing.
    ``others``: what happens without all events that have no effect of their own. ``left_out``: what wasn't found out,
    and why, in a sentence each; empty if everything was.
    """

    view: str
    version: int
    key: Row = field(hash=False)
    row: Row = field(hash=False)
    cut: Cut
    late: bool
    source: Source | None
    parts: tuple[Part, ...] = field(hash=False)
    verified: bool
    finished: bool
    complete: bool
    last: LastChange | None
    against: Comparison | None
    seconds: float
    runs: int
    jobs: int = 0
    tested: bool = True
    others: Effect | None = None
    left_out: tuple[str, ...] = ()

    @property
    def events(self) -> tuple[LandedEvent, ...]:
        return tuple(part.event for part in self.parts)

    def to_json(self) -> dict[str, Any]:
        return {
            "view": self.view,
            "version": self.version,
            "key": dict(self.key),
            "row": dict(self.row),
            "cut": self.cut.to_json(),
            "late_events_included": self.late,
            "served": None if self.source is None else _source(self.source),
            "events": [part.to_json() for part in self.parts],
            "verified": self.verified,
            "tested": self.tested,
            "finished": self.finished,
            "complete": self.complete,
            "left_out": list(self.left_out),
            "others": None if self.others is None else _effect(self.others),
            "contributions_computed": sum(part.effect is not None for part in self.parts),
            "last_change": None if self.last is None else _last_change.as_json(self.last),
            "against": None if self.against is None else self.against.to_json(),
            "seconds": round(self.seconds, 3),
            "function_runs": self.runs,
            "jobs": self.jobs,
        }


def _source(source: Source) -> Mapping[str, Any]:
    certificate = source.certificate
    return {
        "half": source.half,
        "cut": source.cut.to_json(),
        "table_version": source.table_version,
        "committed": source.committed,
        "run": source.run,
        "epoch": source.epoch,
        "certificate": None
        if certificate is None
        else {"equal": certificate.equal, "cut": certificate.cut.to_json(), "run": certificate.run},
    }


def _effect(found: Effect) -> dict[str, Any]:
    return {"makes_row": found.makes_it, "changes": _cells(found.changes)}


def _cells(found: tuple[Change, ...]) -> list[dict[str, Any]]:
    return [{"column": c.column, "with": c.with_it, "without": c.without, "by": c.by} for c in found]
