"""Run all data checks of a build in one Spark job that returns the failing partitions."""

# ruff: noqa: S608 - column names come from registered views and are quoted

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from functools import reduce
from typing import TYPE_CHECKING, Annotated, Any
from uuid import uuid4

from pydantic import BeforeValidator, PlainSerializer

from anabranch.certify._checks import Check, Screen
from anabranch.views.model.definition import PARTITION_DATE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MAX_ERROR_TEXT = 500


def _from_pairs(offending: Any) -> Any:
    return dict(offending) if isinstance(offending, list) else offending


def _pairs(offending: Mapping[date | None, int]) -> list[tuple[str | None, int]]:
    """JSON has no null as a key."""
    return [(day.isoformat() if day else None, number) for day, number in offending.items()]


Offending = Annotated[Mapping[date | None, int], BeforeValidator(_from_pairs), PlainSerializer(_pairs)]
"""The number of offending rows (keys, offsets) per partition; the partition of a kappa view is None."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A table and its checks. ``inputs``: further DataFrames that the queries read, by the names they use."""

    table: str
    rows: DataFrame = field(hash=False)
    checks: Sequence[Check]
    inputs: Mapping[str, DataFrame] = field(hash=False, default_factory=dict)


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one check. ``rows``: how many rows the table has. ``error``: why the check couldn't run; then it
    counts as failed in every partition."""

    table: str
    check: str
    says: str
    rows: int
    offending: Offending = field(hash=False, default_factory=dict)
    error: str = ""

    @property
    def failed(self) -> bool:
        return bool(self.offending or self.error)

    def concerns(self, partition: date | None) -> int | None:
        """Return how many rows offend in ``partition`` or have no known partition; None if the check passed there."""
        counts = {day: number for day, number in self.offending.items() if day in (partition, None)}
        return sum(counts.values()) if counts or self.error else None


def run_checks(spark: SparkSession, subjects: Sequence[Subject]) -> tuple[CheckResult, ...]:
    """Return the result of each check. A check that raises counts as failed, with its error; the others still run."""
    with _temp_views(subjects) as registered:
        try:
            return _run_together(spark, registered)
        except _spark_errors():
            return tuple(_run_one(spark, table, check) for table in registered for check in table.subject.checks)


@dataclass(frozen=True, slots=True)
class _Registered:
    """A subject whose DataFrames are registered as temporary views; ``names`` maps their names in queries to them."""

    subject: Subject
    names: Mapping[str, str] = field(hash=False)

    def sql(self, query: str) -> str:
        return reduce(lambda text, name: text.replace(f"{{{name}}}", self.names[name]), self.names, query)


@contextmanager
def _temp_views(subjects: Sequence[Subject]) -> Iterator[list[_Registered]]:
    """Register the subjects' DataFrames as temporary views with unique names, and drop them at the end."""
    views: list[tuple[DataFrame, str]] = []

    def register(rows: DataFrame) -> str:
        name = f"anabranch_{uuid4().hex}"
        rows.createOrReplaceTempView(name)
        views.append((rows, name))
        return name

    try:
        yield [
            _Registered(
                subject, {name: register(rows) for name, rows in {"rows": subject.rows, **subject.inputs}.items()}
            )
            for subject in subjects
        ]
    finally:
        for rows, name in views:
            rows.sparkSession.catalog.dropTempView(name)


def _run_together(spark: SparkSession, tables: Sequence[_Registered]) -> tuple[CheckResult, ...]:
    """Run all checks as one query. Each check has a number from 0 on, each table's row count one from -1 down."""
    checks = [(table, check) for table in tables for check in table.subject.checks]
    numbers = {(id(table), check.name): number for number, (table, check) in enumerate(checks)}
    sizes = {id(table): -1 - number for number, table in enumerate(tables)}
    queries = []
    for table in tables:
        own = {numbers[id(table), check.name]: check for check in table.subject.checks}
        conditions = {n: check.offends for n, check in own.items() if check.offends and not check.rare}
        if rare := {number: check.offends for number, check in own.items() if check.rare}:
            queries.append(table.sql(_rare_query(rare)))
        screens = {number: check.screen for number, check in own.items() if check.screen}
        queries.append(table.sql(_condition_query(sizes[id(table)], conditions, screens)))
        templates = {number: check.query for number, check in own.items() if check.query and not check.screen}
        queries += [_numbered(number, table.sql(template)) for number, template in templates.items()]
    results = _run_queries(spark, queries)
    screened = [number for number, (_, check) in enumerate(checks) if check.screen]
    suspects = [number for number in screened if results.pop(number, {})]
    if suspects:
        results |= _run_queries(spark, [_numbered(n, checks[n][0].sql(checks[n][1].query)) for n in suspects])
    return tuple(
        CheckResult(
            table.subject.table, check.name, check.says, sum(results.get(sizes[id(table)], {}).values()),
            dict(results.get(number, {})),
        )
        for number, (table, check) in enumerate(checks)
    )  # fmt: skip


def _condition_query(size: int, conditions: Mapping[int, str], screens: Mapping[int, Screen]) -> str:
    """Return a query that counts, in one pass, the rows of each partition, those that meet each condition, and the
    groups of the screen that fail."""
    counts = {"n": "count(*)", **{f"c{number}": f"count_if({condition})" for number, condition in conditions.items()}}
    numbers = {size: "n", **{number: f"c{number}" for number in conditions}}
    if not screens:
        rows = f"SELECT {PARTITION_DATE}, {_columns(counts)} FROM {{rows}} GROUP BY {PARTITION_DATE}"
        return _stacked(numbers, rows)
    ((number, screen),) = screens.items()
    keys = {f"k{place}": key for place, key in enumerate(screen.by)}
    totals = {name: total for name, (total, _) in screen.totals.items()}
    groups = (
        f"SELECT {PARTITION_DATE}, {_columns({**keys, **counts, **totals})} "
        f"FROM {{rows}} GROUP BY {', '.join([PARTITION_DATE, *keys.values()])}"
    )
    # Of the groups there are few: they are added up by partition for the counts, and by the screen's keys for it.
    of_screen = f"grouping({PARTITION_DATE}) = 1"
    counted = {name: f"IF({of_screen}, 0L, sum({name}))" for name in counts}
    merged = {name: f"{merge}({name})" for name, (_, merge) in screen.totals.items()}
    summed = (
        f"SELECT {PARTITION_DATE}, {of_screen} AS of_screen, {_columns({**counted, **merged})} "
        f"FROM ({groups}) GROUP BY GROUPING SETS (({PARTITION_DATE}), ({', '.join(keys)}))"
    )
    failing = f"SELECT *, IF(of_screen, 1L, 0L) AS s FROM ({summed}) WHERE NOT of_screen OR {screen.fails}"
    return _stacked({**numbers, number: "s"}, failing)


def _rare_query(conditions: Mapping[int, str]) -> str:
    """Return a query that counts the rows of each partition that meet each condition. Its filter is what Spark can hold
    against the statistics of each row group, before it reads one."""
    counts = {f"c{number}": f"count_if({condition})" for number, condition in conditions.items()}
    rows = (
        f"SELECT {PARTITION_DATE}, {_columns(counts)} FROM {{rows}} "
        f"WHERE {' OR '.join(f'({condition})' for condition in conditions.values())} GROUP BY {PARTITION_DATE}"
    )
    return _stacked({number: f"c{number}" for number in conditions}, rows)


def _columns(columns: Mapping[str, str]) -> str:
    return ", ".join(f"{expression} AS {name}" for name, expression in columns.items())


def _stacked(numbers: Mapping[int, str], rows: str) -> str:
    """Return a query with one row per number and partition, from ``rows`` with a column for each number."""
    pairs = ", ".join(f"{number}, {column}" for number, column in numbers.items())
    return (
        f"SELECT number, {PARTITION_DATE}, offending FROM ({rows}) "
        f"LATERAL VIEW stack({len(numbers)}, {pairs}) counted AS number, offending WHERE offending > 0"
    )


def _numbered(number: int, query: str) -> str:
    return f"SELECT {number} AS number, {PARTITION_DATE}, offending FROM ({query})"


def _run_queries(spark: SparkSession, queries: Sequence[str]) -> dict[int, dict[date | None, int]]:
    """Run the queries as one Spark job. Returns the offending rows by number, then by partition."""
    rows = reduce(lambda left, right: left.unionAll(right), map(spark.sql, queries)).collect()
    results: dict[int, dict[date | None, int]] = defaultdict(dict)
    for row in rows:
        by_partition = results[row["number"]]
        by_partition[row[PARTITION_DATE]] = by_partition.get(row[PARTITION_DATE], 0) + row["offending"]
    return results


def _run_one(spark: SparkSession, table: _Registered, check: Check) -> CheckResult:
    name = table.subject.table
    try:
        rows = spark.sql(table.sql(check.standalone_query)).collect()
        size = spark.sql(table.sql("SELECT count(*) AS n FROM {rows}")).collect()[0]["n"]
    except _spark_errors() as error:
        text = str(error)[:_MAX_ERROR_TEXT] or type(error).__name__
        return CheckResult(name, check.name, check.says, 0, error=text)
    return CheckResult(name, check.name, check.says, size, {row[PARTITION_DATE]: row["offending"] for row in rows})


def _spark_errors() -> tuple[type[Exception], ...]:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    return Py4JError, PySparkException
