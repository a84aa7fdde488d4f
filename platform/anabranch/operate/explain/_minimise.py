"""Finds the events behind a row: guesses a set, verifies it with the view's function, and minimises it.

An event is behind a row if the row changes without it, or if it produces a row of that key by itself. Groups of events
are tested first, because each test is a run of the function.

``certify._source_events`` does less for the evidence of many rows: it doesn't remove events that have no part, which
would take dozens of runs for each row, and needs no more than two Spark jobs for all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from anabranch.operate.explain._candidate_filters import by_key, guesses, sharing_key
from anabranch.operate.explain._candidates import Candidates, Row
from anabranch.operate.explain._evaluator import EventSet, OutOfTime, ViewEvaluator, same, with_key

_AT_ONCE: Final = 8
FEW: Final = 16
"""Up to this number of events, each is tested alone."""
_RESERVE: Final = 12
"""Runs of the function that are reserved for computing each event's contribution."""


@dataclass(frozen=True, slots=True)
class Contributors:
    """``events`` are indexes into the candidates. ``verified``: the function over only these gives the row.
    ``idle`` events change nothing even when all of them are removed together: other events have the same values, or
    later ones override them. ``finished``: the minimisation was completed; otherwise the time budget was used up.
    ``tested``: the function has run over what may be behind the row; without it ``verified`` says nothing."""

    events: EventSet = field(hash=False)
    verified: bool
    idle: EventSet = field(hash=False, default=frozenset())
    finished: bool = True
    tested: bool = True


class Search:
    """The search for one row of one path. ``seen``: the candidates that the path's cut and late rule include."""

    def __init__(self, function: ViewEvaluator, candidates: Candidates, seen: NDArray[np.bool_], row: Row) -> None:
        self.function = function
        self.row = row
        self.key = {name: row[name] for name in function.view.key}
        self.seen = seen
        self._candidates = candidates
        self._right: EventSet | None = None

    @property
    def all(self) -> EventSet:
        """All candidates that the path has seen."""
        return frozenset(np.flatnonzero(self.seen).tolist())

    def run(self) -> Contributors:
        """Find the events. Out of time it returns the smallest set that was verified so far."""
        try:
            found = self._first_match()
            if found is not None:
                return self._minimise(found)
        except OutOfTime:
            if self._right is not None:
                return Contributors(self._right, verified=True, finished=False)
            return Contributors(self._named, verified=False, finished=False, tested=False)
        return Contributors(self._named, verified=False)

    @property
    def _named(self) -> EventSet:
        return by_key(self.function.view, self.row, self._candidates.events, self.seen)

    def _first_match(self) -> EventSet | None:
        """Returns the smallest guess that gives the row and leaves out no event that produces a row of this key; else
        the largest guess that gives it; None if not even all events in the row's reach give it."""
        view, events = self.function.view, self._candidates.events
        sharing = sharing_key(view, self.row, events, self.seen)
        named = by_key(view, self.row, events, self.seen)
        waiting = guesses(view, self.row, events, self.seen)
        # One job for the likely guesses: in a new process, the first job takes as long as ten later ones.
        self.function.rows([choice for choice in (sharing, named, *waiting[:_AT_ONCE]) if choice])
        whole = self._whole(sharing)
        if whole is None:
            return None
        likely = named if named and self._gives_row([named])[0] else whole
        waiting = [choice for choice in waiting if choice < whole]
        for start in range(0, len(waiting), _AT_ONCE):
            if start and not self.function.budget.affords(2 * _AT_ONCE):
                break
            tried = list(dict.fromkeys([likely, *waiting[start : start + _AT_ONCE]]))
            right = sorted((c for c, gives in zip(tried, self._gives_row(tried), strict=True) if gives), key=len)[:3]
            if not self.function.budget.affords(len(right)):
                break
            for choice, rest in zip(right, self._makes_key_row([whole - choice for choice in right]), strict=True):
                if not rest:
                    return choice
            if likely == named:
                break
        return likely

    def _whole(self, sharing: EventSet) -> EventSet | None:
        """Returns the events that share the key's fields, at any event time, if they give the row; else all events, if
        those do. Sharing ones come first: over all events of several days the function computes many other rows."""
        for choice in dict.fromkeys([sharing, self.all]):
            if choice and self._gives_row([choice])[0]:
                self._right = choice
                return choice
        return None

    def _minimise(self, found: EventSet) -> Contributors:
        """Removes groups that have no part; then tests ever smaller groups next to those that were removed."""
        self._right = found
        idle: EventSet = frozenset()
        groups = _split(sorted(found), len(found) if len(found) <= FEW else _AT_ONCE)
        fruitless, finished = 0, True
        while groups and len(found) > 1 and fruitless < 2:
            finished = self._affords(found, groups)
            if not finished:
                break
            unmoved = self._gives_row([found - set(group) for group in groups])
            free = [frozenset(group) for group, still in zip(groups, unmoved, strict=True) if still]
            partless = [group for group, makes in zip(free, self._makes_key_row(free), strict=True) if not makes]
            idle |= frozenset().union(*(group for group in free if group not in partless))
            dropped = self._drop(found, partless)
            found -= dropped
            self._right = found
            fruitless = 0 if dropped else fruitless + 1
            tested = groups
            groups = list(_border_groups(tested, dropped)) if len(found) > FEW else [[place] for place in sorted(found)]
            if groups == tested:
                break
        return Contributors(found, verified=True, idle=self._jointly_idle(found, idle & found), finished=finished)

    def _affords(self, found: EventSet, groups: Sequence[Sequence[int]]) -> bool:
        """Whether one more round leaves enough budget for the contributions. A round that tests each event alone
        computes them already."""
        alone = len(groups) == len(found)
        return self.function.budget.affords(len(groups) if alone else 2 * len(groups) + min(_RESERVE, len(found)))

    def _drop(self, found: EventSet, partless: Sequence[EventSet]) -> EventSet:
        """Returns the events of as many groups as can be removed together without changing the row."""
        every = frozenset().union(*partless) if partless else frozenset()
        if not every or self._gives_row([found - every])[0]:
            return every
        gone: EventSet = frozenset()
        for group in partless:
            if self.function.budget.affords(1) and self._gives_row([found - gone - group])[0]:
                gone |= group
        return gone

    def _jointly_idle(self, found: EventSet, idle: EventSet) -> EventSet:
        """Returns the idle events if the row stays the same without all of them; else none."""
        if not idle or len(idle) == len(found) or not self.function.budget.affords(1):
            return frozenset()
        return idle if self._gives_row([found - idle])[0] else frozenset()

    def _gives_row(self, choices: Sequence[EventSet]) -> list[bool]:
        return [same(with_key(rows, self.key), self.row) for rows in self.function.rows(choices)]

    def _makes_key_row(self, choices: Sequence[EventSet]) -> list[bool]:
        return [with_key(rows, self.key) is not None for rows in self.function.rows(choices)]


def _split(places: Sequence[int], parts: int) -> list[list[int]]:
    """Splits ``places`` into at most ``parts`` non-empty runs of about the same length."""
    return [run.tolist() for run in np.array_split(np.array(places, np.int64), max(1, parts)) if len(run)]


def _border_groups(groups: Sequence[Sequence[int]], dropped: EventSet) -> Iterator[list[int]]:
    """Quarters of the groups next to removed ones, and of the first and the last group: borders lie there."""
    alive = [n for n, group in enumerate(groups) if not dropped.issuperset(group)]
    gone = set(range(len(groups))) - set(alive)
    for n in alive:
        if (n in (alive[0], alive[-1]) or {n - 1, n + 1} & gone) and len(groups[n]) > 1:
            yield from _split(groups[n], 4)
