"""The events behind a row: guessed, held to the view's function, and made fewer until none is left that has no part.

An event is behind a row when the row is another one without it, or when it makes a row of that key by itself. That is
asked of groups of events first, because each question is a run of the function.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from anabranch.operate.explain.candidate_filters import by_key, guesses, sharing_key
from anabranch.operate.explain.candidates import Candidates, Row
from anabranch.operate.explain.evaluator import Chosen, ViewEvaluator, same, with_key
from numpy.typing import NDArray

_AT_ONCE: Final = 8
FEW: Final = 16
"""Up to so many events each is asked about alone."""
_RESERVE: Final = 12
"""Runs that are kept for what each event contributes."""


@dataclass(frozen=True, slots=True)
class Contributors:
    """``events`` are places in the candidates. ``verified``: the function over just these gives the row.
    ``idle`` of them change nothing when all are taken away together: others say the same, or later ones overrule
    them. ``finished``: the search for events that can be left out came to its end; else the seconds ran out."""

    events: Chosen = field(hash=False)
    verified: bool
    idle: Chosen = field(hash=False, default=frozenset())
    finished: bool = True


class Search:
    """For one row, as one path has it: ``seen`` are the candidates that the path's cut and rule let in."""

    def __init__(self, function: ViewEvaluator, candidates: Candidates, seen: NDArray[np.bool_], row: Row) -> None:
        self.function = function
        self.row = row
        self.key = {name: row[name] for name in function.view.key}
        self.seen = seen
        self._candidates = candidates

    @property
    def all(self) -> Chosen:
        """Everything that the path has seen."""
        return frozenset(np.flatnonzero(self.seen).tolist())

    def run(self) -> Contributors:
        found = self._first()
        if found is None:
            named = by_key(self.function.view, self.row, self._candidates.events, self.seen)
            return Contributors(named, verified=False)
        return self._fewer(found)

    def _first(self) -> Chosen | None:
        """The smallest guess that gives the row and leaves nothing behind that makes a row of this key; else the
        largest that gives it; None when not even all events of the row's reach do."""
        view, events = self.function.view, self._candidates.events
        sharing = sharing_key(view, self.row, events, self.seen)
        named = by_key(view, self.row, events, self.seen)
        waiting = guesses(view, self.row, events, self.seen)
        # One job for the likely ones: in a process that has just started, the first takes as long as ten later ones.
        self.function.rows([choice for choice in (sharing, named, *waiting[:_AT_ONCE]) if choice])
        whole = self._whole(sharing)
        if whole is None:
            return None
        likely = named if named and self._give([named])[0] else whole
        waiting = [choice for choice in waiting if choice < whole]
        for start in range(0, len(waiting), _AT_ONCE):
            if start and not self.function.budget.affords(2 * _AT_ONCE):
                break
            tried = list(dict.fromkeys([likely, *waiting[start : start + _AT_ONCE]]))
            right = sorted((c for c, gives in zip(tried, self._give(tried), strict=True) if gives), key=len)[:3]
            if not self.function.budget.affords(len(right)):
                break
            for choice, rest in zip(right, self._make_key([whole - choice for choice in right]), strict=True):
                if not rest:
                    return choice
            if likely == named:
                break
        return likely

    def _whole(self, sharing: Chosen) -> Chosen | None:
        """The events that share the key's fields, at whatever time, if they give the row; else all, if those do. What
        the function costs over all events of some days, it costs for many rows."""
        for choice in dict.fromkeys([sharing, self.all]):
            if choice and self._give([choice])[0]:
                return choice
        return None

    def _fewer(self, found: Chosen) -> Contributors:
        """Without the groups that have no part, in ever smaller groups beside those that were left out."""
        idle: Chosen = frozenset()
        groups = _split(sorted(found), len(found) if len(found) <= FEW else _AT_ONCE)
        fruitless, finished = 0, True
        while groups and len(found) > 1 and fruitless < 2:
            finished = self._affords(found, groups)
            if not finished:
                break
            unmoved = self._give([found - set(group) for group in groups])
            free = [frozenset(group) for group, still in zip(groups, unmoved, strict=True) if still]
            partless = [group for group, makes in zip(free, self._make_key(free), strict=True) if not makes]
            idle |= frozenset().union(*(group for group in free if group not in partless))
            dropped = self._drop(found, partless)
            found -= dropped
            fruitless = 0 if dropped else fruitless + 1
            asked = groups
            groups = list(_beside(asked, dropped)) if len(found) > FEW else [[place] for place in sorted(found)]
            if groups == asked:
                break
        return Contributors(found, verified=True, idle=self._together(found, idle & found), finished=finished)

    def _affords(self, found: Chosen, groups: Sequence[Sequence[int]]) -> bool:
        """Whether one more round leaves enough for the contributions. Asking about each event alone is that."""
        alone = len(groups) == len(found)
        return self.function.budget.affords(len(groups) if alone else 2 * len(groups) + min(_RESERVE, len(found)))

    def _drop(self, found: Chosen, partless: Sequence[Chosen]) -> Chosen:
        """As many of the groups as can go together."""
        every = frozenset().union(*partless) if partless else frozenset()
        if not every or self._give([found - every])[0]:
            return every
        gone: Chosen = frozenset()
        for group in partless:
            if self.function.budget.affords(1) and self._give([found - gone - group])[0]:
                gone |= group
        return gone

    def _together(self, found: Chosen, idle: Chosen) -> Chosen:
        """The idle ones, if the row stays the same without all of them."""
        if not idle or len(idle) == len(found) or not self.function.budget.affords(1):
            return frozenset()
        return idle if self._give([found - idle])[0] else frozenset()

    def _give(self, choices: Sequence[Chosen]) -> list[bool]:
        return [same(with_key(rows, self.key), self.row) for rows in self.function.rows(choices)]

    def _make_key(self, choices: Sequence[Chosen]) -> list[bool]:
        return [with_key(rows, self.key) is not None for rows in self.function.rows(choices)]


def _split(places: Sequence[int], parts: int) -> list[list[int]]:
    """``places`` in so many runs of about the same length, none of them empty."""
    return [run.tolist() for run in np.array_split(np.array(places, np.int64), max(1, parts)) if len(run)]


def _beside(groups: Sequence[Sequence[int]], dropped: Chosen) -> Iterator[list[int]]:
    """Quarters of the groups beside those that were left out, and of the first and the last: borders lie there."""
    alive = [n for n, group in enumerate(groups) if not dropped.issuperset(group)]
    gone = set(range(len(groups))) - set(alive)
    for n in alive:
        if (n in (alive[0], alive[-1]) or {n - 1, n + 1} & gone) and len(groups[n]) > 1:
            yield from _split(groups[n], 4)
