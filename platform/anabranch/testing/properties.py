"""What is asked of the author's function alone: cheap, so of many logs. What the real paths are asked: see ``paths``.

A question says which cases it needs computed and reads the answer from their rows; many questions of many logs share
the same cases and the same Spark jobs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from random import Random
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from anabranch.testing import counterexample, evaluator
from anabranch.testing.counterexample import Finding, Side, unequal
from anabranch.testing.evaluator import LANDED, Arrangement, Case, Computer, Result, Rows
from anabranch.testing.rows import day
from anabranch.testing.scenario import Log, as_dicts, valid, watermark
from anabranch.views.canonical import canonical
from anabranch.views.definition import WATERMARK
from anabranch.views.partitions import touched_partitions

if TYPE_CHECKING:
    from anabranch.contracts import Sources
    from anabranch.views import View

Oracle = Callable[[list[dict[str, Any]]], list[dict[str, Any]]]
Landed = list[dict[str, Any]]
_DAY: Final = timedelta(days=1)
PLAIN: Final = LANDED.name


class Property(Protocol):
    """Something that holds for every log, or the view is wrong."""

    @property
    def codes(self) -> Collection[str]:
        """What its findings are called."""
        ...

    def closer(self, found: Finding) -> Property:
        """The same question where ``found`` has an answer, which takes less to ask again."""
        ...

    def cases(self, view: View, landed: Landed) -> Mapping[str, Case]: ...

    def answer(self, view: View, log: Log, landed: Landed, results: Mapping[str, Rows]) -> Finding | None: ...


class _Closest:
    """A question that can't be asked any closer."""

    def closer(self, found: Finding) -> Property:
        return cast("Property", self)


class Identified(_Closest):
    """The key identifies a row, and each row has a partition."""

    codes = (counterexample.PARTITION_NULL, counterexample.KEY)

    def cases(self, view: View, landed: Landed) -> Mapping[str, Case]:
        return {PLAIN: Case(landed)}

    def answer(self, view: View, log: Log, landed: Landed, results: Mapping[str, Rows]) -> Finding | None:
        rows, by = results[PLAIN], view.partition_by
        lost = [row for row in rows if by is not None and row[by] is None]
        if lost:
            return Finding(counterexample.PARTITION_NULL, log, Side("rows without a partition", lost))
        keys = Counter(tuple(canonical(row[k]) for k in view.key) for row in rows)
        shared = [row for row in rows if keys[tuple(canonical(row[k]) for k in view.key)] > 1]
        return Finding(counterexample.KEY, log, Side("rows that share a key", shared)) if shared else None


@dataclass(frozen=True)
class AsTheOracle(_Closest):
    """The author's other reading of the events says the same, in the columns that it names."""

    oracle: Oracle
    topics: Sources

    @property
    def codes(self) -> Collection[str]:
        return (counterexample.ORACLE,)

    def cases(self, view: View, landed: Landed) -> Mapping[str, Case]:
        return {PLAIN: Case(landed)}

    def answer(self, view: View, log: Log, landed: Landed, results: Mapping[str, Rows]) -> Finding | None:
        events = list(as_dicts(valid(landed, view, late=True), self.topics))
        if view.closes:
            events = [{**event, WATERMARK: watermark(landed, view, self.topics)} for event in events]
        expected = self.oracle(events)
        columns = list(expected[0]) if expected else None
        left, right = Side("the oracle", expected), Side("the view", results[PLAIN])
        return unequal(counterexample.ORACLE, view, log, left, right, columns)


@dataclass(frozen=True)
class Arranged(_Closest):
    """The same events give the same rows when they come otherwise."""

    code: str
    arrangement: Arrangement

    @property
    def codes(self) -> Collection[str]:
        return (self.code,)

    def cases(self, view: View, landed: Landed) -> Mapping[str, Case]:
        return {PLAIN: Case(landed), self.arrangement.name: Case(landed, self.arrangement)}

    def answer(self, view: View, log: Log, landed: Landed, results: Mapping[str, Rows]) -> Finding | None:
        left, right = (Side(f"the events {name}", results[name]) for name in (PLAIN, self.arrangement.name))
        return unequal(self.code, view, log, left, right)


@dataclass(frozen=True)
class Pruned:
    """A partition's rows need no event that lies further outside of it than lookback and lookahead say.

    ``before`` and ``after``: whether events are left out on that side, to find out which of the two is too short.
    At ``most`` so many days of a log are looked at, or ``only`` one.
    """

    code: str = counterexample.PRUNED
    most: int = 1
    before: bool = True
    after: bool = True
    only: date | None = None

    def closer(self, found: Finding) -> Property:
        return replace(self, only=found.fields["partition"])

    @property
    def codes(self) -> Collection[str]:
        return (self.code, counterexample.FAR)

    def cases(self, view: View, landed: Landed) -> Mapping[str, Case]:
        cases = {PLAIN: Case(landed)}
        for partition in self._partitions(view, landed):
            start = datetime.combine(partition, time(), UTC)
            since = _moved(start, -view.lookback) if self.before else None
            until = _moved(start, _DAY + view.lookahead) if self.after else None
            cases[f"{self.code} {partition}"] = Case(landed, since=since, until=until, history=view.tables)
        return cases

    def answer(self, view: View, log: Log, landed: Landed, results: Mapping[str, Rows]) -> Finding | None:
        by = str(view.partition_by)
        far = self._far(view, landed, results[PLAIN])
        if far:
            side = Side("rows that no event can reach", far)
            return Finding(counterexample.FAR, log, side, fields={"partition": day(far[0], by)})
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

    def _far(self, view: View, landed: Landed, rows: Rows) -> Rows:
        """Rows of days that are much further from every event than the declaration says: both paths refuse such.

        Of a day or two it is better said that lookback or lookahead is too short: see ``answer``.
        """
        if view.kappa:
            return []
        days = _days(landed, view)
        near = {d + n * _DAY for d in days for n in (-2, -1, 0, 1, 2)}
        reached = set(touched_partitions(view, near))
        return [row for row in rows if day(row, str(view.partition_by)) not in reached]

    def _partitions(self, view: View, landed: Landed) -> list[date]:
        """Days that have events, and a day beside them: all when there are few, else some."""
        if view.kappa:
            return []
        if self.only is not None:
            return [self.only]
        days = sorted(_days(landed, view))
        beside = sorted({d + shift * _DAY for d in days for shift in (-1, 1)} - set(days))
        if len(days) + len(beside) <= self.most:
            return days + beside
        rng = Random(len(landed))  # noqa: S311 - which days are looked at is no secret
        chosen = rng.sample(days, min(len(days), self.most))
        return chosen + rng.sample(beside, min(len(beside), self.most - len(chosen)))


def _moved(start: datetime, by: timedelta) -> datetime | None:
    """None beyond the ends of the calendar, where no event can be."""
    try:
        return start + by
    except OverflowError:
        return None


def _days(landed: Landed, view: View) -> set[date]:
    """The days that have events: not those of the view's tables, which make no rows alone."""
    return {row["event_time"].date() for row in valid(landed, view, late=True) if row["type"] not in view.tables}


def usual(oracle: Oracle | None, topics: Sources, time_zone: str | None) -> list[Property]:
    """The questions of the first round. Those that mean several things are asked in particular after a failure."""
    asked: list[Property] = [Identified(), Arranged(counterexample.MIXED, evaluator.MIXED), Pruned()]
    if oracle is not None:
        asked.append(AsTheOracle(oracle, topics))
    if time_zone is not None:
        asked.append(Arranged(counterexample.TIME_ZONE, evaluator.elsewhere(time_zone)))
    return asked


PARTICULAR: Final[Mapping[str, tuple[Property, ...]]] = {
    counterexample.MIXED: (
        Arranged(counterexample.IMPURE, evaluator.AGAIN),
        Arranged(counterexample.ORDER, evaluator.REVERSED),
        Arranged(counterexample.SPREAD, evaluator.SPREAD),
    ),
    counterexample.PRUNED: (
        Pruned(counterexample.LOOKBACK, 6, after=False),
        Pruned(counterexample.LOOKAHEAD, 6, before=False),
    ),
}
"""For a code that can mean several things: the questions that tell them apart."""


class FunctionJudge:
    """Asks questions of many logs at once."""

    def __init__(self, computer: Computer) -> None:
        self.computer = computer

    def judge(self, logs: Sequence[Log], questions: Sequence[Property]) -> list[Finding | None]:
        """For each log the first thing that is wrong, or None."""
        view, topics = self.computer.view, self.computer.topics
        landed = [log.landed(topics) for log in logs]
        cases = {
            (number, name): case
            for number, rows in enumerate(landed)
            for question in questions
            for name, case in question.cases(view, rows).items()
        }
        results = self.computer.compute(cases)
        return [
            self._verdict(log, rows, {name: r for (at, name), r in results.items() if at == number}, questions)
            for number, (log, rows) in enumerate(zip(logs, landed, strict=True))
        ]

    def _verdict(
        self, log: Log, landed: Landed, results: Mapping[str, Result], questions: Sequence[Property]
    ) -> Finding | None:
        rows: dict[str, Rows] = {}
        for name, result in results.items():
            if isinstance(result, Exception):
                return Finding(counterexample.FAILS, log, error=result, fields={"case": name})
            rows[name] = result
        found = (question.answer(self.computer.view, log, landed, rows) for question in questions)
        return next(filter(None, found), None)
