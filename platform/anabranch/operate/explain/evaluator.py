"""Runs the view's own function over sets of events: many sets in one small Spark job, within a time budget."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime
from functools import reduce
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from anabranch.contracts import Sources
from anabranch.operate.explain.candidates import Candidates, Row
from anabranch.views.definition import PARTITION_DATE, WATERMARK, View
from anabranch.views.inputs import events_of, frames, rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CASE: Final = "_case"
_FIRST_GUESS = 0.15
"""Estimated seconds of one run, until one was measured."""
EventSet = frozenset[int]
"""A set of events, as indexes into the candidates."""


class Budget:
    """The time budget of one explanation, and the cost of one run of the function in the last job."""

    def __init__(self, seconds: float) -> None:
        self._ends = time.monotonic() + seconds
        self._each = _FIRST_GUESS
        self.runs = 0

    @property
    def left(self) -> float:
        return self._ends - time.monotonic()

    def affords(self, runs: int) -> bool:
        """Whether ``runs`` more runs of the function will probably fit in the remaining time."""
        return self.left > runs * self._each

    def affordable(self, most: int) -> int:
        """How many runs, at most ``most``, will probably fit in the remaining time."""
        return max(0, min(most, int(self.left / self._each)))

    def note(self, seconds: float, runs: int) -> None:
        # The first job of a session is a poor estimate: most of its time is Spark's warm-up.
        self._each = seconds / runs if self.runs else min(seconds / runs, _FIRST_GUESS)
        self.runs += runs


class ViewEvaluator:
    """Evaluates one view version at one watermark over sets of ``candidates``. Caches each result."""

    def __init__(
        self,
        spark: SparkSession,
        view: View,
        topics: Sources,
        candidates: Candidates,
        watermark: datetime | None,
        budget: Budget,
    ) -> None:
        self.view = view
        self.budget = budget
        self._spark = spark
        self._topics = topics
        self._table = candidates.table
        self._watermark = watermark
        self._cache: dict[EventSet, list[Row]] = {}

    def rows(self, choices: Sequence[EventSet]) -> list[list[Row]]:
        """Returns the function's rows for each set of events, with one Spark job for all sets that aren't cached. A set
        for which the author's function raises has no rows."""
        new = [choice for choice in dict.fromkeys(choices) if choice not in self._cache]
        if new:
            begun = time.monotonic()
            self._cache |= dict(zip(new, self._compute(new), strict=True))
            self.budget.note(time.monotonic() - begun, len(new))
        return [self._cache[choice] for choice in choices]

    def _compute(self, choices: Sequence[EventSet]) -> list[list[Row]]:
        try:
            return self._job(choices)
        except Exception:
            if len(choices) == 1:
                return [[]]
            return [self._compute([choice])[0] for choice in choices]

    def _job(self, choices: Sequence[EventSet]) -> list[list[Row]]:
        from pyspark.sql import DataFrame
        from pyspark.sql import functions as F

        applied = [self._apply(choice).withColumn(_CASE, F.lit(n)) for n, choice in enumerate(choices)]
        table = reduce(DataFrame.unionAll, applied).toArrow()
        results: list[list[Row]] = [[] for _ in choices]
        for row in table.to_pylist():
            results[row.pop(_CASE)].append({name: value for name, value in row.items() if name != PARTITION_DATE})
        return results

    def _apply(self, choice: EventSet) -> DataFrame:
        from pyspark.sql import functions as F

        rows = self._table.take(pa.array(np.array(sorted(choice), np.int64)))
        events = events_of(self._spark.createDataFrame(rows).coalesce(1), self.view, late=True)
        if self.view.closes:
            events = events.withColumn(WATERMARK, F.lit(self._watermark).cast("timestamp"))
        return rows_of(self.view, frames(events, self.view, self._topics))


def all_of(size: int) -> EventSet:
    return frozenset(range(size))


def with_key(rows: Sequence[Row], key: Row) -> Row | None:
    """Returns the row of ``key``, or None. A view has one row per key; if a function produces more, the first."""
    from anabranch.views.canonical import canonical

    wanted = {name: canonical(value) for name, value in key.items()}
    for row in rows:
        if all(canonical(row.get(name)) == value for name, value in wanted.items()):
            return row
    return None


def same(left: Row | None, right: Row | None) -> bool:
    """Whether both rows are equal in the columns of ``right``, or both are None."""
    from anabranch.views.canonical import canonical

    if left is None or right is None:
        return left is right
    return all(canonical(left.get(name)) == canonical(value) for name, value in right.items())
