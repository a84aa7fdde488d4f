"""The platform's checks as data: each is a question whose answer is the partitions in which something is wrong.

Names of columns come from a registered view and are quoted; no text of a reader gets into a query.
"""
# ruff: noqa: S608

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Final

from anabranch.events import Topic
from anabranch.landing.schema import PARTITION as EVENT_DATE
from anabranch.landing.schema import QUARANTINED, VALID
from anabranch.views.definition import PARTITION, View

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

HERE: Final = "_here"
"""A column that is 1 in every row of a side: after an outer join it says on which side a row was."""
_COUNT = re.compile(r"\b(?:count|count_if)\((?:[^()]|\([^()]*\))*\) AS (\w+)#\d+")


@dataclass(frozen=True, slots=True)
class Check:
    """``query`` reads ``{batch}`` and returns one row (partition_date, offending) per partition that fails."""

    name: str
    says: str
    query: str


@dataclass(frozen=True, slots=True)
class FailedCheck:
    """A check that didn't hold in ``partition`` (None: it can't be said where, so nowhere), or that broke."""

    check: str
    table: str
    partition: date | None
    offending: int
    error: str = ""


def landing_checks(topic: Topic) -> list[Check]:
    """Over landed rows, where ``partition_date`` is the event date. Coordinates and decisions are checked by
    expectations of Great Expectations' own (``suite.py``)."""
    bound = int(topic.future_bound.total_seconds())
    received = "greatest(append_time, coalesce(receivedtime, append_time))"
    return [
        Check(
            "offsets_unique",
            "Every offset of a log partition is landed once; a released record once more, under its own epoch.",
            f"SELECT {EVENT_DATE} AS {PARTITION}, count(*) AS offending FROM (SELECT min({EVENT_DATE}) AS {EVENT_DATE} "
            "FROM {batch} WHERE released_from IS NULL GROUP BY partition, offset HAVING count(*) > 1) "
            f"GROUP BY {EVENT_DATE}",
        ),
        _where(
            "event_time_range",
            f"The event time of a valid record is after {topic.earliest_year} began, not over {topic.future_bound} "
            "after its receipt, and on its event date.",
            f"decision = '{VALID}' AND NOT coalesce(event_time >= TIMESTAMP '{topic.earliest_year}-01-01' AND "
            f"event_time <= {received} + INTERVAL {bound} SECONDS AND to_date(event_time) = {EVENT_DATE}, false)",
            EVENT_DATE,
        ),
        _where(
            "decisions_complete",
            "A valid record says whether it is late, of which type and by which id; a quarantined one says why.",
            f"(decision = '{VALID}' AND (late IS NULL OR type IS NULL OR event_id IS NULL OR source IS NULL)) "
            f"OR (decision = '{QUARANTINED}' AND reason IS NULL)",
            EVENT_DATE,
        ),
    ]


def half_checks(view: View, counts: Sequence[str]) -> list[Check]:
    """Over the rows of a half; ``counts`` names the columns that are counts."""
    keys = ", ".join(_quoted(name) for name in view.key)
    none = " OR ".join(f"{_quoted(name)} IS NULL" for name in view.key)
    negative = " OR ".join(f"{_quoted(name)} < 0" for name in counts)
    checks = [
        Check(
            "key_unique",
            f"No two rows have the same key ({', '.join(view.key)}).",
            f"SELECT {PARTITION}, count(*) AS offending FROM (SELECT {PARTITION} FROM {{batch}} "
            f"GROUP BY {PARTITION}, {keys} HAVING count(*) > 1) GROUP BY {PARTITION}",
        ),
        _where("key_not_null", f"No column of the key ({', '.join(view.key)}) is null.", none, PARTITION),
    ]
    if counts:
        checks.append(_where("counts_not_negative", f"{', '.join(counts)}: no count is below 0.", negative, PARTITION))
    return checks


def completeness_check(speed: str) -> Check:
    """Over a build: every partition in which ``speed`` (a temporary view) has rows has rows in the build, too."""
    return Check(
        "complete",
        "Every partition that has rows in the speed half has rows in the batch half.",
        f"SELECT s.{PARTITION}, count(*) AS offending FROM {speed} s LEFT ANTI JOIN {{batch}} b "
        f"ON s.{PARTITION} = b.{PARTITION} GROUP BY s.{PARTITION}",
    )


def equality_query(view: View, columns: Sequence[str], expected: str) -> str:
    """Over the speed half: keys that aren't on both sides, or whose rows differ in any column."""
    same = " AND ".join(f"s.{_quoted(name)} <=> e.{_quoted(name)}" for name in view.key)
    values = [name for name in columns if name not in (*view.key, PARTITION)]
    equal = " AND ".join(f"s.{_quoted(name)} <=> e.{_quoted(name)}" for name in values) or "true"
    return (
        f"SELECT coalesce(s.{PARTITION}, e.{PARTITION}) AS {PARTITION}, count(*) AS offending "
        f"FROM {{batch}} s FULL OUTER JOIN {expected} e ON s.{PARTITION} <=> e.{PARTITION} AND {same} "
        f"WHERE s.{HERE} IS NULL OR e.{HERE} IS NULL OR NOT ({equal}) "
        f"GROUP BY coalesce(s.{PARTITION}, e.{PARTITION})"
    )


def count_columns(result: DataFrame) -> list[str]:
    """The columns of a view's result that a count made, read off its plan; a sum may well be negative."""
    plan = result._jdf.queryExecution().analyzed().toString()
    return sorted(set(_COUNT.findall(plan)) & set(result.columns))


def _where(name: str, says: str, condition: str, partition: str) -> Check:
    query = f"SELECT {partition} AS {PARTITION}, count(*) AS offending FROM {{batch}} WHERE {condition} "
    return Check(name, says, query + f"GROUP BY {partition}")


def _quoted(name: str) -> str:
    """A column in a query that Great Expectations formats: braces are doubled."""
    return "`" + name.replace("`", "``").replace("{", "{{").replace("}", "}}") + "`"
