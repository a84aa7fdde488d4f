"""Shrink a log that proves a view wrong to a minimal one: first fewer events, then simpler ones.

Many candidates are judged at once, because they share Spark jobs. The total time is bounded.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import islice
from typing import Any

from anabranch.testing._counterexample import Finding
from anabranch.testing._fake_landing import Event
from anabranch.testing._scenario import Fault, Log, Step

Judge = Callable[[Sequence[Log]], list[Finding | None]]


@dataclass
class Shrinker:
    """``judge`` gets ``at_once`` logs at a time. A candidate is accepted if it fails with the same code."""

    judge: Judge
    at_once: int
    seconds: float
    tries: int = 0

    def shrink(self, found: Finding) -> Finding:
        """Returns the smallest failure found within ``seconds``."""
        ends = time.monotonic() + self.seconds
        for candidates in (_simpler_steps, _fewer_events, _simpler_events, _fewer_events):
            found = self._until_none_fails(found, candidates, ends)
        return found

    def _until_none_fails(self, found: Finding, candidates: Callable[[Log], Iterator[Log]], ends: float) -> Finding:
        waiting = candidates(found.log)
        while time.monotonic() < ends:
            batch = list(islice(waiting, self.at_once))
            if not batch:
                break
            self.tries += len(batch)
            failing = [f for f in self.judge(batch) if f is not None and f.code == found.code]
            if failing:
                found = min(failing, key=lambda f: len(f.log.events))
                waiting = candidates(found.log)
        return found


def _simpler_steps(log: Log) -> Iterator[Log]:
    """Fewer epochs, fewer starts, fewer faults."""
    if len(log.epochs) > 1:
        yield log.flat
    if len(log.steps) > 1:
        yield Log((Step(log.epochs),))
    if any(step.then is not Fault.GO_ON for step in log.steps):
        yield Log(tuple(replace(step, then=Fault.GO_ON) for step in log.steps))
        for n, step in enumerate(log.steps):
            if step.then is not Fault.GO_ON:
                yield Log((*log.steps[:n], replace(step, then=Fault.GO_ON), *log.steps[n + 1 :]))


def _fewer_events(log: Log) -> Iterator[Log]:
    """Removes ever smaller chunks of the events, beginning with halves."""
    places = range(len(log.events))
    size = (len(places) + 1) // 2
    while size and len(places) > 1:
        for start in range(0, len(places), size):
            yield log.only([p for p in places if not start <= p < start + size])
        size = size // 2 if size > 1 else 0


def _simpler_events(log: Log) -> Iterator[Log]:
    """Simplifies one thing at a time: correct clocks, nulls, values that other events have, full hours."""
    events = log.events
    for simpler in (_without_defects, _on_the_hour):
        changed = [simpler(event) for event in events]
        if changed != list(events):
            yield log.with_events(changed)
    for name in sorted({name for event in events for name in event.data}):
        yield from _simpler_field(log, name)
    for n, event in enumerate(events):
        for other in (_without_defects(event), _on_the_hour(event)):
            if other != event:
                yield log.with_events([*events[:n], other, *events[n + 1 :]])


def _simpler_field(log: Log, name: str) -> Iterator[Log]:
    values = [event.data[name] for event in log.events if name in event.data]
    choices: list[Any] = [None] if None in values else []
    choices += sorted((value for value in values if value is not None), key=_complexity)[:1]
    for value in choices:
        if any(other != value for other in values):
            events = [replace(e, data={**e.data, name: value}) if name in e.data else e for e in log.events]
            yield log.with_events(events)


def _complexity(value: Any) -> tuple[bool, int]:
    shown = str(value)
    return not (shown.isascii() and shown.isalnum()), len(shown)


def _without_defects(event: Event) -> Event:
    return replace(event, broken=False, clock=timedelta(0), partition=0, source="s1", subject="k1")


def _on_the_hour(event: Event) -> Event:
    return replace(event, time=event.time.replace(minute=0, second=0, microsecond=0))
