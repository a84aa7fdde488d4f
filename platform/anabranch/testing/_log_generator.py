"""Generate random logs for a view from the contracts of its event types.

hypothesis draws the values (a small pool per field) and a seed; everything else about the log is drawn from that seed.
A log is plain data, so it can be shrunk without hypothesis, in bounded time.
"""

from __future__ import annotations

import random
import re
from calendar import isleap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from anabranch.core.errors import BadInput
from anabranch.testing._fake_landing import Event, MultiTopicDecisions
from anabranch.testing._scenario import Fault, Log, Step
from anabranch.testing._source_literals import literals
from anabranch.views.model.definition import duration

if TYPE_CHECKING:
    from anabranch.contracts import Contract
    from anabranch.contracts.model.topics import Sources
    from anabranch.views import View
    from anabranch.views.function_source import Source

# Days whose boundaries cause mistakes: ends of years, months and February, and the nights when clocks change.
_DAYS: Final = tuple(
    datetime(*day, tzinfo=UTC)
    for day in ((2013, 1, 1), (2013, 1, 15), (2013, 3, 10), (2013, 11, 3), (2015, 12, 31), (2016, 2, 29), (2013, 4, 30))
)
_MICROSECOND: Final = timedelta(microseconds=1)
_DAY: Final = timedelta(days=1)
_TEXT_DURATION: Final = re.compile(r"\b[0-9]{1,4} +(?:second|minute|hour|day|week)s?\b", re.IGNORECASE)

Pools = Mapping[str, Sequence[Any]]


def draw(view: View, topics: Sources, source: Source, seed: int, count: int, *, size: tuple[int, int]) -> list[Log]:
    """Returns ``count`` logs of ``size`` (minimum, maximum) events, fewer if hypothesis finds no more. The same seed
    gives the same logs.

    Raises BadInput HYPOTHESIS_MISSING if the library isn't installed.
    """
    try:
        import hypothesis
    except ImportError:
        raise BadInput(
            "HYPOTHESIS_MISSING",
            "prove() draws its events with hypothesis, which isn't installed",
            state="nothing was proven",
            next_step="pip install hypothesis (or: pip install 'anabranch[test]')",
        ) from None
    from hypothesis import strategies as st

    from anabranch.testing._values import pool, pool_key

    named = literals(source)
    pools = st.fixed_dictionaries(
        {
            pool_key(name, node): pool(node, named)
            for contract in _contracts(view, topics)
            for name, node in contract.fields.items()
        }
    )
    generator, found = LogGenerator(view, topics, source, size), list[Log]()

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=count,
        phases=[hypothesis.Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(pools, st.integers(0, 2**32 - 1))
    def collect(pools: Pools, number: int) -> None:
        if len(found) < count:
            found.append(generator.log(pools, random.Random(f"{seed}/{len(found)}/{number}")))  # noqa: S311

    collect()
    return found


def _contracts(view: View, topics: Sources) -> list[Contract]:
    return [contract for contract in _all_contracts(topics) if contract.name in view.events]


def _all_contracts(topics: Sources) -> list[Contract]:
    return [contract for topic in topics.each for contract in topic.contracts]


@dataclass(frozen=True)
class LogGenerator:
    """Generates a log from pools of values and a random number generator."""

    view: View
    topics: Sources
    source: Source
    size: tuple[int, int]

    @cached_property
    def spans(self) -> list[timedelta]:
        """The durations that matter to this view: those in its declaration and those in its code."""
        import ast

        texts = [n.value for t in self.source.trees for n in ast.walk(t) if isinstance(n, ast.Constant)]
        named = [duration(m.lower()) for text in texts if isinstance(text, str) for m in _TEXT_DURATION.findall(text)]
        declared = [self.view.lookback, self.view.lookahead]
        return sorted({span for span in (*named, *declared, timedelta(hours=1)) if span})

    def log(self, pools: Pools, rng: random.Random) -> Log:
        from anabranch.testing._values import pool_key

        count, times = rng.randint(*self.size), self._times(rng)
        contracts = _contracts(self.view, self.topics)
        others = [c for c in _all_contracts(self.topics) if c.name not in self.view.events]
        sources, subjects = rng.sample(["s1", "s2", "s3"], 2), ["k1", "k2", "k3"]
        # Some fields have a single value in the whole log: everything is one group then, with many ties.
        constant = {key for key in pools if rng.random() < 0.3}
        # Some logs have no nulls, some have many.
        nulls = rng.choice([0.0, 0.15, 0.5])
        drawn = []
        for number in range(count):
            contract = rng.choice(contracts)
            data: dict[str, Any] = {}
            for name, node in contract.fields.items():
                pool = pools[pool_key(name, node)]
                null = name not in contract.required and rng.random() < nulls
                data[name] = None if null else pool[0] if pool_key(name, node) in constant else rng.choice(pool)
            event = Event(
                contract.name,
                rng.choice(times),
                f"e{number + 1}",
                data,
                rng.randrange(self.topics.carrier(contract.name).partitions),
                source=rng.choice(sources),
                subject=rng.choice(subjects),
                clock=rng.choice([timedelta(0)] * 6 + [timedelta(hours=-7, minutes=3), timedelta(days=400)]),
                version=contract.version,
            )
            drawn.append(event)
        if others and rng.random() < 0.3:  # an event of another type on the topic also advances the watermark
            other = rng.choice(others)
            drawn.append(Event(other.name, rng.choice(times), "neighbour", version=other.version))
        return self._to_log([self._with_defect(event, drawn, rng) for event in drawn], rng)

    def _times(self, rng: random.Random) -> list[datetime]:
        """A few instants: boundaries of days and windows, a microsecond to either side, and a span apart."""
        earliest = max(topic.earliest_year for topic in self.topics.each)
        start = _not_before(earliest, rng.choice(_DAYS))
        far = max(_DAY, *self.spans)
        found = [start + rng.choice([timedelta(0), _DAY / 2])]
        for _ in range(rng.randint(3, 9)):
            span = rng.choice([*self.spans, _DAY, timedelta(minutes=rng.randint(1, 90))])
            border = start + rng.choice([-1, 0, 0, 0, 1, 1, 2]) * rng.choice([_DAY, span])
            near = rng.choice(found) + rng.choice([-1, 1]) * span
            base = rng.choice([border, near, start + rng.random() * 2 * far])
            found.append(
                base + rng.choice([timedelta(0), timedelta(0), -_MICROSECOND, _MICROSECOND, timedelta(seconds=1)])
            )
        return [t for t in found if t.year >= earliest]

    def _with_defect(self, event: Event, others: Sequence[Event], rng: random.Random) -> Event:
        """One in twenty is unreadable; one in ten is sent again, or has the id of another event."""
        chance = rng.random()
        if chance < 0.05:
            return replace(event, broken=True)
        if chance < 0.12:
            twin = rng.choice(others)
            return replace(twin, partition=event.partition % self.topics.carrier(twin.type).partitions)
        if chance < 0.15:
            twin = rng.choice(others)
            return replace(event, id=twin.id, source=twin.source)
        if chance < 0.18:  # ids are unique within their source only
            twin = rng.choice(others)
            return replace(event, id=twin.id, source=f"not {twin.source}", time=rng.choice([event.time, twin.time]))
        return event

    def _to_log(self, events: Sequence[Event], rng: random.Random) -> Log:
        """Sorts the events by arrival (some on time, some a little late, some too late) and cuts them into epochs and
        steps."""
        none_late = rng.random() < 0.25  # in a log without late events both paths have to agree with each other
        arrived = [
            (event.time + rng.choice(self._delays(event, none_late)), n, event) for n, event in enumerate(events)
        ]
        ordered = [event for _, _, event in sorted(arrived, key=lambda a: a[:2])]
        places = sorted(rng.sample(range(1, len(ordered)), min(len(ordered) - 1, rng.randint(1, 5))))
        epochs = [tuple(ordered[a:b]) for a, b in pairwise([0, *places, len(ordered)])]
        if not none_late:
            epochs = self._at_late_bound(epochs, rng)
        cuts = sorted(rng.sample(range(1, len(epochs)), min(len(epochs) - 1, rng.randint(1, 2))))
        steps = [tuple(epochs[a:b]) for a, b in pairwise([0, *cuts, len(epochs)])]
        faults = [rng.choice(list(Fault)) for _ in steps]
        if len(steps) == 2 and faults[0] is Fault.LOSE:  # the last step would only be a first start, no update
            faults[0] = rng.choice([Fault.GO_ON, Fault.REPEAT])
        return Log(tuple(Step(step, then) for step, then in zip(steps, faults, strict=True)))

    def _delays(self, event: Event, none_late: bool) -> list[timedelta]:
        allowed = self.topics.carrier(event.type).allowed_lateness
        late = [] if none_late else [allowed, allowed * 3, _DAY * 2]
        return [timedelta(0), timedelta(0), allowed / 2, *late]

    def _at_late_bound(self, epochs: list[tuple[Event, ...]], rng: random.Random) -> list[tuple[Event, ...]]:
        """Moves the first event of some epochs exactly to the bound of being late, or a microsecond before it."""
        decisions, found = MultiTopicDecisions(self.topics), []
        for events in epochs:
            bound = decisions.bound(events[0].type)
            if bound is not None and rng.random() < 0.3:
                events = (replace(events[0], time=bound - rng.choice([timedelta(0), _MICROSECOND])), *events[1:])
            decisions.decide(events)
            found.append(events)
        return found


def _not_before(year: int, day: datetime) -> datetime:
    """The day in the first year that is allowed and has the same weekdays: clocks change on the same days, too."""
    weekday = day.replace(month=1, day=1).weekday()
    years = (at for at in range(max(year, day.year), 10_000) if isleap(at) == isleap(day.year))
    return next(day.replace(year=at) for at in years if datetime(at, 1, 1, tzinfo=UTC).weekday() == weekday)
