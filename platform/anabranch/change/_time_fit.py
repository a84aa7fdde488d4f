"""Fit the time of runs: a fixed part, a part per day and a part per event, none of them negative.

Starting Spark twice is most of a small run, events are most of a large one, so neither alone predicts the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_ROUNDS = 25
_SETTLED = 0.01
"""Differences below this share of a run's time count as equal to it."""
_ALL_PARTS = 6
"""With fewer runs at most two parts are fitted: three of them would fit any three runs."""
_SUBSETS = ((0,), (0, 2), (0, 1), (2,), (1,), (1, 2), (0, 1, 2))
"""Of the columns fixed, days, events. The simplest come first: another one is taken only if it fits better."""
Row = tuple[float, float, float]
Matrix = list[list[float]]


@dataclass(frozen=True, slots=True)
class TimeFit:
    """The parts of a run's time, in seconds."""

    fixed: float
    per_day: float
    per_event: float

    def seconds(self, days: int, events: int) -> float:
        return self.fixed + self.per_day * days + self.per_event * events


def fit(runs: Sequence[tuple[int, int, float]]) -> TimeFit:
    """Fit ``runs``, each with its days, events and seconds; at least one.

    Differences count in proportion to the expected time, and not squared (least squares, weighted anew in each round):
    a run on a busy machine moves the fit no more than any other does.
    """
    scale = [1.0, *(max(1.0, *(float(run[n]) for run in runs)) for n in (0, 1))]
    rows = [(1.0, days / scale[1], events / scale[2]) for days, events, _ in runs]
    took = [max(seconds, 0.1) for _, _, seconds in runs]
    weights = [1 / seconds for seconds in took]
    parts: Row = (0.0, 0.0, 0.0)
    for _ in range(_ROUNDS):
        parts = _least_squares(rows, took, weights)
        expected = [max(_value(parts, row), 0.1) for row in rows]
        weights = [1 / (e * max(abs(e - s), _SETTLED * e)) for e, s in zip(expected, took, strict=True)]
    return TimeFit(*(part / by for part, by in zip(parts, scale, strict=True)))


def _value(parts: Row, row: Row) -> float:
    return sum(part * x for part, x in zip(parts, row, strict=True))


def _least_squares(rows: Sequence[Row], took: Sequence[float], weights: Sequence[float]) -> Row:
    """Of all subsets of the columns whose weighted least squares are not negative, return the best one."""
    weighed = list(zip(rows, took, weights, strict=True))
    a = [[sum(w * row[i] * row[j] for row, _, w in weighed) for j in range(3)] for i in range(3)]
    b = [sum(w * row[i] * seconds for row, seconds, w in weighed) for i in range(3)]
    best, least = (0.0, 0.0, 0.0), float("inf")
    for columns in _SUBSETS if len(rows) >= _ALL_PARTS else _SUBSETS[:-1]:
        solved = _solved([[*(a[i][j] for j in columns), b[i]] for i in columns])
        if solved is None or min(solved) < 0:
            continue
        found = dict(zip(columns, solved, strict=True))
        parts = found.get(0, 0.0), found.get(1, 0.0), found.get(2, 0.0)
        lost = sum(w * (_value(parts, row) - seconds) ** 2 for row, seconds, w in weighed)
        if lost < least * (1 - 1e-6) - 1e-12:
            best, least = parts, lost
    return best


def _solved(system: Matrix) -> list[float] | None:
    """Solve the equations, each with its right side last; None if they depend on each other."""
    size, limit = len(system), 1e-11 * max(abs(row[n]) for n, row in enumerate(system))
    for n in range(size):
        pivot = max(range(n, size), key=lambda row: abs(system[row][n]))
        system[n], system[pivot] = system[pivot], system[n]
        if abs(system[n][n]) <= limit:
            return None
        for row in (row for row in range(size) if row != n):
            factor = system[row][n] / system[n][n]
            system[row] = [x - factor * y for x, y in zip(system[row], system[n], strict=True)]
    return [system[n][size] / system[n][n] for n in range(size)]
