"""From a log that proves a view wrong to a small one that does: fewer events first, then plainer ones.

Many candidates are judged at once, because they share Spark jobs, and never for longer than was allowed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import islice
from typing import Any

from anabranch.testing.counterexample import Finding
from anabranch.testing.fake_landing import Event
from anabranch.testing.scenario import Fault, Log, Step

Judge = Callable[[Sequence[Log]], list[Finding | None]]


@dataclass
class Shrinker:
    """``judge`` is asked about ``at_once`` logs at a time. A candidate counts when it fails with the same code."""

    judge: Judge
    at_once: int
    seconds: float
    tries: int = 0

    def shrink(self, found: Finding) -> Finding:
        """The smallest failure that was found in time."""
        ends = time.monotonic() + self.seconds
        for candidates in (_calmer, _fewer, _plainer, _fewer):
            found = self._until_none_fails(found, candidates, ends)
        return found

    def _until_none_fails(self, found: Finding, candidates: Callable[[Log], Iterator[Log]], ends: float) -> Finding:
        waiting = candidates(found.log)
        while time.monotonic() < ends:
            some = list(islice(waiting, self.at_once))
            if not some:
                break
            self.tries += len(some)
            worse = [f for f in self.judge(some) if f is not None and f.code == found.code]
            if worse:
                found = min(worse, key=lambda f: len(f.log.events))
                waiting = candidates(found.log)
        return found


def _calmer(log: Log) -> Iterator[Log]:
    """Fewer epochs, fewer starts, nothing that befalls the stream."""
    if len(log.epochs) > 1:
        yield log.flat
    if len(log.steps) > 1:
        yield Log((Step(log.epochs),))
    if any(step.then is not Fault.GO_ON for step in log.steps):
        yield Log(tuple(replace(step, then=Fault.GO_ON) for step in log.steps))
        for n, step in enumerate(log.steps):
            if step.then is not Fault.GO_ON:
                yield Log((*log.steps[:n], replace(step, then=Fault.GO_ON), *log.steps[n + 1 :]))


def _fewer(log: Log) -> Iterator[Log]:
    """Without ever smaller parts of its events; a half alone comes first."""
    places = range(len(log.events))
    size = (len(places) + 1) // 2
    while size and len(places) > 1:
        for start in range(0, len(places), size):
            yield log.only([p for p in places if not start <= p < start + size])
        size = size // 2 if size > 1 else 0


def _plainer(log: Log) -> Iterator[Log]:
    """With one thing less to wonder about: true clocks, nulls, values that others have, full hours."""
    events = log.events
    for simpler in (_unspoiled, _on_the_hour):
        changed = [simpler(event) for event in events]
        if changed != list(events):
            yield log.with_events(changed)
    for name in sorted({name for event in events for name in event.data}):
        yield from _simpler_field(log, name)
    for n, event in enumerate(events):
        for other in (_unspoiled(event), _on_the_hour(event)):
            if other != event:
                yield log.with_events([*events[:n], other, *events[n + 1 :]])


def _simpler_field(log: Log, name: str) -> Iterator[Log]:
    held = [event.data[name] for event in log.events if name in event.data]
    choices: list[Any] = [None] if None in held else []
    choices += sorted((value for value in held if value is not None), key=_strangeness)[:1]
    for value in choices:
        if any(other != value for other in held):
            events = [replace(e, data={**e.data, name: value}) if name in e.data else e for e in log.events]
            yield log.with_events(events)


def _strangeness(value: Any) -> tuple[bool, int]:
    shown = str(value)
    return not (shown.isascii() and shown.isalnum()), len(shown)


def _unspoiled(event: Event) -> Event:
    return replace(event, broken=False, clock=timedelta(0), partition=0, source="s1", subject="k1")


def _on_the_hour(event: Event) -> Event:
    return replace(event, time=event.time.replace(minute=0, second=0, microsecond=0))
