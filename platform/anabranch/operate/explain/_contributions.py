"""Computes what each event contributes to a row: the row's cells compared with the row without the event."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from anabranch.operate.explain._candidates import LandedEvent, Row
from anabranch.operate.explain._evaluator import EventSet, OutOfTime, ViewEvaluator, with_key
from anabranch.views.model.canonical import canonical

MOST: Final = 20
"""Maximum number of events of one row whose contribution is computed, unless more are asked for."""
_LEAST: Final = 3
"""Minimum number, even if the time budget is used up: an explanation without contributions says little."""


@dataclass(frozen=True, slots=True)
class Change:
    """One cell: its value, and its value without the event. ``by`` is the difference if both are numbers."""

    column: str
    with_it: Any = field(hash=False)
    without: Any = field(hash=False)

    @property
    def by(self) -> int | float | Decimal | None:
        numbers = [v for v in (self.with_it, self.without) if isinstance(v, int | float | Decimal)]
        if len(numbers) < 2 or any(isinstance(v, bool) for v in numbers):
            return None
        return numbers[0] - numbers[1]  # type: ignore[operator]  # both are of the column's one type

    @property
    def size(self) -> float:
        return abs(float(self.by)) if self.by is not None else 1.0


@dataclass(frozen=True, slots=True)
class Effect:
    """What happens without the event: the row doesn't exist (``makes_it``), cells differ (``changes``), or nothing."""

    makes_it: bool
    changes: tuple[Change, ...]

    @property
    def none(self) -> bool:
        return not self.makes_it and not self.changes


@dataclass(frozen=True, slots=True)
class Effects:
    """The effects of single events. ``others``: of all events without an effect of their own, what happens without all
    of them together; None if there is none, or the time was over. ``in_time``: the budget allowed as many as were
    asked for."""

    each: Mapping[int, Effect] = field(hash=False)
    others: Effect | None = None
    in_time: bool = True


def effects(function: ViewEvaluator, behind: EventSet, row: Row, order: Sequence[int], most: int = MOST) -> Effects:
    """Returns the effects of the first ``most`` events of ``order``, or of as many as the budget allows, and the effect
    of the others together."""
    asked = list(order)[:most]
    chosen = asked[: max(_LEAST, function.budget.affordable(len(asked) + 1) - 1)]
    key = {name: row[name] for name in function.view.key}
    wanted = [behind - {place} for place in chosen]
    some = frozenset(chosen) if len(chosen) < len(behind) else frozenset[int]()
    try:
        # First the one that says something of most events.
        function.rows([*([some] if some else []), *wanted])
    except OutOfTime:
        chosen = [place for place in chosen if function.known(behind - {place}) is not None]
    known = {place: effect(row, with_key(function.known(behind - {place}) or [], key)) for place in chosen}
    together = function.known(some) if some and frozenset(chosen) == some else None
    others = effect(row, with_key(together, key)) if together is not None else None
    return Effects(known, others, in_time=len(known) == len(asked))


def effect(row: Row, without: Row | None) -> Effect:
    return Effect(without is None, changes(row, without) if without is not None else ())


def changes(row: Row, other: Row) -> tuple[Change, ...]:
    """The cells that differ, in the order of ``row``'s columns."""
    return tuple(
        Change(name, value, other.get(name))
        for name, value in row.items()
        if canonical(value) != canonical(other.get(name))
    )


def by_interest(behind: EventSet, events: Sequence[LandedEvent], first: EventSet, idle: EventSet) -> list[int]:
    """The order in which contributions are computed: ``first``, then late events, then those that aren't idle, then
    the newest in the log."""
    return sorted(
        behind,
        key=lambda place: (place not in first, not events[place].late, place in idle, -events[place].epoch, place),
    )
