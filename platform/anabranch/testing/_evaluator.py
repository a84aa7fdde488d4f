"""Apply the author's function to many logs in few Spark jobs, without landing them.

The function is applied to each case separately; only the job that collects the rows (a union of the results) is
shared. So the function sees exactly what it would see alone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from anabranch.core.engine.spark import small
from anabranch.ingest.landing.table.schema import landing_schema
from anabranch.testing._rows import plain
from anabranch.testing._scenario import watermark
from anabranch.views.model.definition import WATERMARK
from anabranch.views.selection.inputs import events_of, frames, rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from anabranch.contracts.model.topics import Sources
    from anabranch.views import View

_CASE: Final = "_case"
Rows = list[dict[str, Any]]
Result = Rows | Exception


@dataclass(frozen=True, slots=True)
class Arrangement:
    """The order in which events arrive, the number of tasks that they are spread over, and the session's time zone."""

    name: str
    order: str = "landed"
    tasks: int = 1
    time_zone: str = "UTC"

    def arranged(self, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        if self.order == "reversed":
            return list(rows[::-1])
        if self.order == "mixed":
            half = len(rows) // 2
            return [*rows[half:][::-1], *rows[:half]]
        return list(rows)


LANDED: Final = Arrangement("as they landed")
AGAIN: Final = Arrangement("as they landed, once more")
REVERSED: Final = Arrangement("in reverse order", order="reversed")
SPREAD: Final = Arrangement("spread over two tasks", tasks=2)
MIXED: Final = Arrangement("in another order, spread over two tasks", order="mixed", tasks=2)


def in_time_zone(time_zone: str) -> Arrangement:
    return Arrangement(f"in a session of the time zone {time_zone}", time_zone=time_zone)


@dataclass(frozen=True)
class Case:
    """One application of the function: these events in this arrangement, only those of [``since``, ``until``) if given,
    with or without ``late`` ones.

    For event types in ``history`` only ``until`` applies.
    """

    rows: Sequence[dict[str, Any]] = field(hash=False)
    arrangement: Arrangement = LANDED
    since: datetime | None = None
    until: datetime | None = None
    late: bool = True
    history: Collection[str] = ()

    @property
    def selected(self) -> list[dict[str, Any]]:
        def kept(row: dict[str, Any]) -> bool:
            at = row["event_time"]
            since = None if row.get("type") in self.history else self.since
            return at is None or not ((since and at < since) or (self.until and at >= self.until))

        return self.arrangement.arranged([row for row in self.rows if kept(row)])


class Evaluator:
    """Applies one view's function. Its sessions are created once and reused."""

    def __init__(self, spark: SparkSession, view: View, topics: Sources) -> None:
        self.view = view
        self.topics = topics
        self.jobs = 0
        self._spark = spark
        self._schema = pa.unify_schemas([landing_schema(topic) for topic in topics.each])
        self._sessions: dict[tuple[int, str], SparkSession] = {}

    def compute(self, cases: Mapping[Any, Case]) -> dict[Any, Result]:
        """The rows of each case, or the exception that it raised. Cases of one arrangement run as one job."""
        results: dict[Any, Result] = {}
        groups: dict[Arrangement, list[Any]] = {}
        for name, case in cases.items():
            groups.setdefault(case.arrangement, []).append(name)
        for arrangement, names in groups.items():
            self._session(arrangement)  # outside the try: a failure in here isn't the author's
            try:
                found = self._run(arrangement, [cases[name] for name in names])
                results |= dict(zip(names, found, strict=True))
            except Exception as error:
                # One failing case fails the job of all, so each case is run alone.
                results |= self._one_by_one(arrangement, cases, names) if len(names) > 1 else {names[0]: error}
        return results

    def _one_by_one(
        self, arrangement: Arrangement, cases: Mapping[Any, Case], names: Sequence[Any]
    ) -> dict[Any, Result]:
        found: dict[Any, Result] = {}
        for name in names:
            try:
                found[name] = self._run(arrangement, [cases[name]])[0]
            except Exception as error:
                found[name] = error
        return found

    def _run(self, arrangement: Arrangement, cases: Sequence[Case]) -> list[Rows]:
        from pyspark.sql import DataFrame
        from pyspark.sql import functions as F

        session = self._session(arrangement)
        applied = [self._apply(session, case) for case in cases]
        self.jobs += 1
        if len(applied) == 1:
            return [plain(applied[0].toArrow())]
        tagged = [rows.withColumn(_CASE, F.lit(number)) for number, rows in enumerate(applied)]
        table = reduce(DataFrame.unionAll, tagged).toArrow()
        numbers = table[_CASE].to_pylist()
        results: list[Rows] = [[] for _ in cases]
        for number, row in zip(numbers, plain(table.drop_columns([_CASE])), strict=True):
            results[number].append(row)
        return results

    def _apply(self, session: SparkSession, case: Case) -> DataFrame:
        from pyspark.sql import functions as F

        landed = session.createDataFrame(pa.Table.from_pylist(case.selected, self._schema))
        # Spark splits local rows, in their order, into as many tasks as it has cores (at least two here).
        landed = landed.coalesce(1) if case.arrangement.tasks == 1 else landed
        events = events_of(landed, self.view, late=case.late)
        if self.view.closes:  # the watermark of everything that landed, including rows outside the case
            events = events.withColumn(WATERMARK, F.lit(watermark(case.rows, self.view, self.topics)).cast("timestamp"))
        return rows_of(self.view, frames(events, self.view, self.topics))

    def _session(self, arrangement: Arrangement) -> SparkSession:
        """One session per arrangement: Spark plans lazily, so changing a setting would affect earlier DataFrames."""
        at = (arrangement.tasks, arrangement.time_zone)
        if at not in self._sessions:
            settings = {
                "spark.sql.shuffle.partitions": str(arrangement.tasks),
                "spark.sql.session.timeZone": arrangement.time_zone,
            }
            self._sessions[at] = small(self._spark, settings)
        return self._sessions[at]
