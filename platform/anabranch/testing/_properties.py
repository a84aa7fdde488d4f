"""The properties that the author's function alone must have. They are cheap, so they are checked on many logs. See
``_end_to_end`` for the properties of the real paths.

A property names the cases that it needs computed and is checked on their rows, so that many properties of many logs
share the same cases and the same Spark jobs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from random import Random
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from anabranch.testing import _counterexample
from anabranch.testing import _evaluator as evaluator
from anabranch.testing._counterexample import Finding, Side, unequal
from anabranch.testing._evaluator import LANDED, Arrangement, Case, Evaluator, Result, Rows
from anabranch.testing._rows import day
from anabranch.testing._scenario import Log, as_dicts, valid, watermark
from anabranch.views.model.canonical import canonical
from anabranch.views.model.definition import WATERMARK
from anabranch.views.selection.partitions import touched_partitions

if TYPE_CHECKING:
    from anabranch.contracts.model.topics import Sources
    from anabranch.views import View

Oracle = Callable[[list[dict[str, Any]]], list[dict[str, Any]]]
Landed = list[dict[str, Any]]
_DAY: Final = timedelta(days=1)
PLAIN: Final = LANDED.name
_ALL_DAYS: Final = 100
"""Of a log that is replayed: shrunk ones have few."""


class Property(Protocol):
    """A property that must hold for every log."""

    @property
    def codes(self) -> Collection[str]:
        """The codes of its findings."""
        ...

    def narrowed(self, found: Finding) -> Property:
        """A cheaper variant that checks only where ``found`` failed; used while shrinking."""
        ...

    def cases(self, view: View, landed: Landed) -> Mapping[str, Case]:
        """The cases to compute, by name. Equal names in several properties share one computation."""
        ...

    def check(self, view: View, log: Log, landed: Landed, results: Mapping[str, Rows]) -> Finding | None:
        """Returns a finding if the rows of the cases violate the property."""
        ...


class _NotNarrowable:
    """A property without a cheaper variant."""

    def narrowed(self, found: Finding) -> Property:
        return cast("Property", self)


class UniqueKey(_NotNarrowable):
    """The key identifies a row, and every row has a partition."""

    codes = (_counterexample.PARTITION_NULL, _counterexample.KEY)

    def cases(self, view: View, landed: Landed) -> Mapping[str, Case]:
        return {PLAIN: Case(landed)}

    def check(self, view: View, log: Log, landed: Landed, results: Mapping[str, Rows]) -> Finding | None:
        rows, by = results[PLAIN], view.partition_by
        lost = [row for row in rows if by is not None and row[by] is None]
        if lost:
            return Finding(_counterexample.PARTITION_NULL, log, Side("rows without a partition", lost))
        keys = Counter(tuple(canonical(row[k]) for k in view.key) for row in rows)
        shared = [row for row in rows if keys[tuple(canonical(row[k]) for k in view.key)] > 1]
        return Finding(_counterexample.KEY, log, Side("rows that share a key", shared)) if shared else None


@dataclass(frozen=True)
class MatchesOracle(_NotNarrowable):
    """The author's oracle gives the same rows, in the columns that it computes."""

    oracle: Oracle
    topics: Sources

    @property
    def codes(self) -> Collection[str]:
        return (_counterexample.ORACLE,)

    def cases(self, view: View, landed: Landed) -> Mapping[str, Case]:
        return {PLAIN: Case(landed)}

    def check(self, view: View, log: Log, landed: Landed, results: Mapping[str, Rows]) -> Finding | None:
        events = list(as_dicts(valid(landed, view, late=True), self.topics))
        if view.closes:
            events = [{**event, WATERMARK: watermark(landed, view, self.topics)} for event in events]
        expected = self.oracle(events)
        columns = list(expected[0]) if expected else None
        left, right = Side("the oracle", expected), Side("the view", results[PLAIN])
        return unequal(_counterexample.ORACLE, view, log, left, right, columns)


@dataclass(frozen=True)
class SameRowsWhenArranged(_NotNarrowable):
    """The same events give the same rows in another arrangement (order, tasks, time zone)."""

    code: str
    arrangement: Arrangement

    @property
    def codes(self) -> Collection[str]:
        return (self.code,)

    def cases(self, view: View, landed: Landed) -> Mapping[str, Case]:
        return {PLAIN: Case(landed), self.arrangement.name: Case(landed, self.arrangement)}

    def check(self, view: View, log: Log, landed: Landed, results: Mapping[str, Rows]) -> Finding | None:
        left, right = (Side(f"the events {name}", results[name]) for name in (PLAIN, self.arrangement.name))
        return unequal(self.code, view, log, left, right)


@dataclass(frozen=True)
class Pruned:
    """A partition's rows need no event that is further outside the partition than lookback and lookahead say.

    ``before`` and ``after``: whether events are pruned on that side, to find out which of the two is too short. At most
    ``most`` days with events are checked, and at least one next to them; or ``only`` one day.
    """

    code: str = _counterexample.PRUNED
    most: int = 1
    before: bool = True
    after: bool = True
    only: date | None = None

    def narrowed(self, found: Finding) -> Property:
        return replace(self, only=found.fields["partition"])

    @property
    def codes(self) -> Collection[str]:
        return (self.code, _counterexample.FAR)

    def cases(self, view: View, landed: Landed) -> Mapping[str, Case]:
        cases = {PLAIN: Case(landed)}
        for partition in self._partitions(view, landed):
            start = datetime.combine(partition, time(), UTC)
            since = _shifted(start, -view.lookback) if self.before else None
            until = _shifted(start, _DAY + view.lookahead) if self.after else None
            cases[f"{self.code} {partition}"] = Case(landed, since=since, until=until, history=view.tables)
        return cases

    def check(self, view: View, log: Log, landed: Landed, results: Mapping[str, Rows]) -> Finding | None:
        by = str(view.partition_by)
        far = self._out_of_reach(view, landed, results[PLAIN])
        if far:
            side = Side("rows that no event can reach", far)
            return Finding(_counterexample.FAR, log, side, fields={"partition": day(far[0], by)})
        for partition in self._partitions(view, landed):
            whole, pruned = (
                [row for row in results[name] if day(row, by) == partition]
                for name in (PLAIN, f"{self.code} {partition}")
            )
            left = Side(f"rows of {partition} from all events", whole)
            right = Side(f"rows of {partition} from the events that lookback and lookahead leave", pruned)
            found = unequal(self.code, view, log, left, right, partition=partition)
            if found:
                return found
        return None

    def _out_of_reach(self, view: View, landed: Landed, rows: Rows) -> Rows:
        """Rows of days that are much further from every event than the declaration allows: both paths refuse them.

        For a distance of a day or two ``check`` reports instead that lookback or lookahead is too short.
        """
        if view.kappa:
            return []
        days = _days(landed, view)
        near = {d + n * _DAY for d in days for n in (-2, -1, 0, 1, 2)}
        reached = set(touched_partitions(view, near))
        return [row for row in rows if day(row, str(view.partition_by)) not in reached]

    def _partitions(self, view: View, landed: Landed) -> list[date]:
        """The days that have events and the days next to them: all if there are few, else a sample of both."""
        if view.kappa:
            return []
        if self.only is not None:
            return [self.only]
        days = sorted(_days(landed, view))
        adjacent = sorted({d + shift * _DAY for d in days for shift in (-1, 1)} - set(days))
        if len(days) + len(adjacent) <= self.most:
            return days + adjacent
        rng = Random(len(landed))  # noqa: S311 - not security-relevant
        chosen = rng.sample(days, min(len(days), self.most))
        return chosen + rng.sample(adjacent, min(len(adjacent), max(self.most - len(chosen), 1)))


def _shifted(start: datetime, by: timedelta) -> datetime | None:
    """``start + by``; None beyond the range of datetime, where no event can be."""
    try:
        return start + by
    except OverflowError:
        return None


def _days(landed: Landed, view: View) -> set[date]:
    """The days that have events, other than events of the view's ``tables``, which make no rows alone."""
    return {row["event_time"].date() for row in valid(landed, view, late=True) if row["type"] not in view.tables}


def default_properties(oracle: Oracle | None, topics: Sources, time_zone: str | None) -> list[Property]:
    """The properties that are checked first. After a failure REFINEMENTS find its specific cause."""
    checked: list[Property] = [UniqueKey(), SameRowsWhenArranged(_counterexample.MIXED, evaluator.MIXED), Pruned()]
    if oracle is not None:
        checked.append(MatchesOracle(oracle, topics))
    if time_zone is not None:
        checked.append(SameRowsWhenArranged(_counterexample.TIME_ZONE, evaluator.in_time_zone(time_zone)))
    return checked


def replayed_properties(checked: Sequence[Property], partition: date | None) -> list[Property]:
    """The properties for a log that failed before, in ``partition`` if its failure has one: a sample of the days could
    miss it, and a log that was shrunk may have no event there."""
    every = [replace(each, most=_ALL_DAYS) if isinstance(each, Pruned) else each for each in checked]
    failed = [replace(each, only=partition) for each in every if isinstance(each, Pruned) and partition is not None]
    return [*failed, *every]


REFINEMENTS: Final[Mapping[str, tuple[Property, ...]]] = {
    _counterexample.MIXED: (
        SameRowsWhenArranged(_counterexample.IMPURE, evaluator.AGAIN),
        SameRowsWhenArranged(_counterexample.ORDER, evaluator.REVERSED),
        SameRowsWhenArranged(_counterexample.SPREAD, evaluator.SPREAD),
    ),
    _counterexample.PRUNED: (
        Pruned(_counterexample.LOOKBACK, 6, after=False),
        Pruned(_counterexample.LOOKAHEAD, 6, before=False),
    ),
}
"""For a code that can have several causes: the properties that tell them apart."""


class FunctionJudge:
    """Checks properties of many logs at once."""

    def __init__(self, evaluator: Evaluator) -> None:
        self.evaluator = evaluator
        self.rows = 0
        """The rows that the function has given for whole logs."""

    def judge(self, logs: Sequence[Log], properties: Sequence[Property]) -> list[Finding | None]:
        """For each log the first finding, or None."""
        view, topics = self.evaluator.view, self.evaluator.topics
        landed = [log.landed(topics) for log in logs]
        cases = {
            (number, name): case
            for number, rows in enumerate(landed)
            for checked in properties
            for name, case in checked.cases(view, rows).items()
        }
        results = self.evaluator.compute(cases)
        self.rows += sum(len(rows) for (_, name), rows in results.items() if name == PLAIN and isinstance(rows, list))
        return [
            self._first_finding(log, rows, {name: r for (at, name), r in results.items() if at == number}, properties)
            for number, (log, rows) in enumerate(zip(logs, landed, strict=True))
        ]

    def _first_finding(
        self, log: Log, landed: Landed, results: Mapping[str, Result], properties: Sequence[Property]
    ) -> Finding | None:
        rows: dict[str, Rows] = {}
        for name, result in results.items():
            if isinstance(result, Exception):
                return Finding(_counterexample.FAILS, log, error=result, fields={"case": name})
            rows[name] = result
        found = (checked.check(self.evaluator.view, log, landed, rows) for checked in properties)
        return next(filter(None, found), None)
