"""Runs the view's own function over sets of events: many sets in one small Spark job, within a time budget.

A job that isn't done when the time is over is cancelled, so one slow function can't make an explanation endless.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import reduce
from threading import Event, Thread
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import numpy as np
import pyarrow as pa

from anabranch.contracts.model.topics import Sources
from anabranch.operate.explain._candidates import Candidates, Row
from anabranch.views import View
from anabranch.views.model.definition import PARTITION_DATE, WATERMARK
from anabranch.views.selection.inputs import events_of, frames, rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CASE: Final = "_case"
_FIRST_GUESS = 0.15
"""Estimated seconds of one run, until one was measured."""
_IN_A_JOB: Final = 10
"""How many sets a job has at most: time can only run out between jobs and while one executes, not while it is
planned."""
_GRACE: Final = 1.25
"""A job that has begun may end this many times the budget after the start; then it is cancelled."""
_AGAIN_SECONDS: Final = 0.2
_ENGINE_GONE: Final = re.compile("stopped SparkContext|SparkContext was shut down|OutOfMemoryError")
EventSet = frozenset[int]
"""A set of events, as indexes into the candidates."""


class OutOfTime(Exception):
    """The time is over: the sets that were asked for weren't all evaluated."""


class Budget:
    """The time budget of one explanation, and the cost of one run of the function in the last job. ``jobs`` and
    ``runs``: how many Spark jobs there were, with how many runs of the function. ``over``: one was cancelled."""

    def __init__(self, seconds: float, begun: float | None = None) -> None:
        """``begun``: when it began, by the monotonic clock; None: now."""
        self._ends = (time.monotonic() if begun is None else begun) + seconds
        self._grace = seconds * (_GRACE - 1)
        self._each = _FIRST_GUESS
        self.runs = self.jobs = 0
        self.over = False

    @property
    def left(self) -> float:
        return self._ends - time.monotonic()

    @property
    def until_cancelled(self) -> float:
        """The seconds until whatever still runs is cancelled."""
        return self.left + self._grace

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
        self.jobs += 1


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
        every: EventSet,
    ) -> None:
        """``every``: the events that the path has seen. The author's function must not fail over all of them; over
        some of them it may."""
        self.view = view
        self.budget = budget
        self._spark = spark
        self._topics = topics
        self._table = candidates.table
        self._watermark = watermark
        self._every = every
        self._cache: dict[EventSet, list[Row]] = {}

    def rows(self, choices: Sequence[EventSet]) -> list[list[Row]]:
        """Returns the function's rows for each set of events, with a Spark job for every ten sets that aren't cached.
        A set for which the author's function raises has no rows, except that of all events: its error is raised, and
        so is that of an engine that is gone. Raises OutOfTime; what was evaluated is cached."""
        new = [choice for choice in dict.fromkeys(choices) if choice not in self._cache]
        for start in range(0, len(new), _IN_A_JOB):
            some = new[start : start + _IN_A_JOB]
            begun = time.monotonic()
            self._cache |= dict(zip(some, self._compute(some), strict=True))
            self.budget.note(time.monotonic() - begun, len(some))
        return [self._cache[choice] for choice in choices]

    def known(self, choice: EventSet) -> list[Row] | None:
        """The function's rows for a set of events that was evaluated; None if it wasn't."""
        return self._cache.get(choice)

    def _compute(self, choices: Sequence[EventSet]) -> list[list[Row]]:
        if self.budget.over or self.budget.until_cancelled <= 0:
            raise OutOfTime
        try:
            with self._cancelled_in_time():
                return self._job(choices)
        except Exception as error:
            if self.budget.over:
                raise OutOfTime from None
            if _is_of_engine(error) or (len(choices) == 1 and choices[0] == self._every):
                raise
            if len(choices) == 1:
                return [[]]
            return [self._compute([choice])[0] for choice in choices]

    @contextmanager
    def _cancelled_in_time(self) -> Iterator[None]:
        """Cancel the block's job when the time is over. Only that one: others may run in the same session."""
        context, tag, ended = self._spark.sparkContext, f"anabranch-explain-{uuid4().hex}", Event()

        def cancel(seconds: float) -> None:
            # Again and again: only a job that has begun can be cancelled, and it may still be planned.
            while not ended.wait(seconds):
                self.budget.over = True  # before the job fails: its error must not be taken for the function's
                context.cancelJobsWithTag(tag)
                seconds = _AGAIN_SECONDS

        thread = Thread(target=cancel, args=[self.budget.until_cancelled], name="anabranch-explain", daemon=True)
        context.addJobTag(tag)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
            context.removeJobTag(tag)

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


def _is_of_engine(error: Exception) -> bool:
    """Whether the engine is gone or has no memory left, which is no error of the author's function."""
    from py4j.protocol import Py4JNetworkError

    return isinstance(error, Py4JNetworkError | ConnectionError) or _ENGINE_GONE.search(str(error)) is not None


def all_of(size: int) -> EventSet:
    return frozenset(range(size))


def with_key(rows: Sequence[Row], key: Row) -> Row | None:
    """Returns the row of ``key``, or None. A view has one row per key; if a function produces more, the first."""
    from anabranch.views.model.canonical import canonical

    wanted = {name: canonical(value) for name, value in key.items()}
    for row in rows:
        if all(canonical(row.get(name)) == value for name, value in wanted.items()):
            return row
    return None


def same(left: Row | None, right: Row | None) -> bool:
    """Whether both rows are equal in the columns of ``right``, or both are None."""
    from anabranch.views.model.canonical import canonical

    if left is None or right is None:
        return left is right
    return all(canonical(left.get(name)) == canonical(value) for name, value in right.items())
