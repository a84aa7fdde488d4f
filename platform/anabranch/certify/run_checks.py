"""Ask all checks of a build at once: one Spark job, whose answer is where something is wrong."""

# ruff: noqa: S608 - names of columns come from registered views and are quoted

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from functools import reduce
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from anabranch.certify.checks import Check
from anabranch.views.definition import PARTITION_DATE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MOST_TEXT = 500
Offending = Mapping[date | None, int]
"""How many rows (keys, offsets) offend, by partition; the partition of a kappa view is None."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A table to check, and what must hold in it. ``beside``: other rows that queries read, by their names there."""

    table: str
    rows: DataFrame = field(hash=False)
    checks: Sequence[Check]
    beside: Mapping[str, DataFrame] = field(hash=False, default_factory=dict)


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What came of one check. ``rows``: how many the table holds. ``error``: why it couldn't be asked; then nobody
    knows where it fails."""

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
        """How many rows offend in ``partition``, with those that no partition is known of; None where none do."""
        found = {day: number for day, number in self.offending.items() if day in (partition, None)}
        return sum(found.values()) if found or self.error else None

    def to_json(self) -> dict[str, Any]:
        offending = [[day.isoformat() if day else None, number] for day, number in self.offending.items()]
        given = {"table": self.table, "check": self.check, "says": self.says, "rows": self.rows}
        return {**given, "offending": offending, "error": self.error}

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> CheckResult:
        offending = {date.fromisoformat(day) if day else None: number for day, number in content["offending"]}
        return CheckResult(**{**content, "offending": offending})


def run_checks(spark: SparkSession, subjects: Sequence[Subject]) -> tuple[CheckResult, ...]:
    """What came of each check. One that breaks counts as failed, with its error; the others are asked all the same."""
    with _registered(subjects) as registered:
        try:
            return _together(spark, registered)
        except _errors():
            return tuple(_alone(spark, table, check) for table in registered for check in table.subject.checks)


@dataclass(frozen=True, slots=True)
class _Registered:
    """A subject under names that SQL knows."""

    subject: Subject
    names: Mapping[str, str] = field(hash=False)

    def sql(self, query: str) -> str:
        return reduce(lambda text, name: text.replace(f"{{{name}}}", self.names[name]), self.names, query)


@contextmanager
def _registered(subjects: Sequence[Subject]) -> Iterator[list[_Registered]]:
    """Temporary views of this session, under names that no other run has."""
    made: list[tuple[DataFrame, str]] = []

    def named(rows: DataFrame) -> str:
        name = f"anabranch_{uuid4().hex}"
        rows.createOrReplaceTempView(name)
        made.append((rows, name))
        return name

    try:
        yield [
            _Registered(subject, {name: named(rows) for name, rows in {"rows": subject.rows, **subject.beside}.items()})
            for subject in subjects
        ]
    finally:
        for rows, name in made:
            rows.sparkSession.catalog.dropTempView(name)


def _together(spark: SparkSession, tables: Sequence[_Registered]) -> tuple[CheckResult, ...]:
    asked = [(table, check) for table in tables for check in table.subject.checks]
    numbers = {(id(table), check.name): number for number, (table, check) in enumerate(asked)}
    sizes = {id(table): -1 - number for number, table in enumerate(tables)}
    questions = []
    for table in tables:
        each = {numbers[id(table), check.name]: check for check in table.subject.checks}
        conditions = {number: check.offends for number, check in each.items() if check.offends}
        questions.append(table.sql(_row_by_row(sizes[id(table)], conditions)))
        queries = {number: check.screen or check.query for number, check in each.items() if check.query}
        questions += [_numbered(number, table.sql(query)) for number, query in queries.items()]
    found = _answers(spark, questions)
    screened = [number for number, (_, check) in enumerate(asked) if check.screen]
    suspects = [number for number in screened if found.pop(number, {})]
    if suspects:
        found |= _answers(spark, [_numbered(n, asked[n][0].sql(asked[n][1].query)) for n in suspects])
    return tuple(
        CheckResult(
            table.subject.table, check.name, check.says, sum(found.get(sizes[id(table)], {}).values()),
            dict(found.get(number, {})),
        )
        for number, (table, check) in enumerate(asked)
    )  # fmt: skip


def _row_by_row(size: int, conditions: Mapping[int, str]) -> str:
    """One pass over the rows: how many there are in each partition, and how many meet each of the conditions."""
    counts = "".join(f", count_if({condition}) AS c{number}" for number, condition in conditions.items())
    answers = "".join(f", {number}, c{number}" for number in conditions)
    return (
        f"SELECT question, {PARTITION_DATE}, offending "
        f"FROM (SELECT {PARTITION_DATE}, count(*) AS n{counts} FROM {{rows}} GROUP BY {PARTITION_DATE}) "
        f"LATERAL VIEW stack({1 + len(conditions)}, {size}, n{answers}) asked AS question, "
        f"offending WHERE question < 0 OR offending > 0"
    )


def _numbered(number: int, query: str) -> str:
    return f"SELECT {number} AS question, {PARTITION_DATE}, offending FROM ({query})"


def _answers(spark: SparkSession, questions: Sequence[str]) -> dict[int, dict[date | None, int]]:
    """By the number of the question: by partition. One Spark job."""
    rows = reduce(lambda left, right: left.unionAll(right), map(spark.sql, questions)).collect()
    found: dict[int, dict[date | None, int]] = defaultdict(dict)
    for row in rows:
        found[row["question"]][row[PARTITION_DATE]] = (
            found[row["question"]].get(row[PARTITION_DATE], 0) + row["offending"]
        )
    return found


def _alone(spark: SparkSession, table: _Registered, check: Check) -> CheckResult:
    asked = CheckResult(table.subject.table, check.name, check.says, 0)
    try:
        rows = spark.sql(table.sql(check.alone)).collect()
        size = spark.sql(table.sql("SELECT count(*) AS n FROM {rows}")).collect()[0]["n"]
    except _errors() as error:
        return CheckResult(
            asked.table, asked.check, asked.says, 0, error=str(error)[:_MOST_TEXT] or type(error).__name__
        )
    return CheckResult(
        asked.table, asked.check, asked.says, size, {row[PARTITION_DATE]: row["offending"] for row in rows}
    )


def _errors() -> tuple[type[Exception], ...]:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    return Py4JError, PySparkException
