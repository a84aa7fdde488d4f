"""The platform's checks as data: each is a question whose answer is the partitions in which something is wrong.

Names of columns come from a registered view and are quoted; no text of a reader gets into a query.
"""
# ruff: noqa: S608

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from anabranch.contracts import Topic
from anabranch.ingest.landing.schema import DUPLICATE, QUARANTINED, VALID
from anabranch.views.definition import PARTITION_DATE, View

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

HERE: Final = "_here"
"""A column that is 1 in every row of a side: after an outer join it says on which side a row was."""
_COUNT = re.compile(r"\b(?:count|count_if)\((?:[^()]|\([^()]*\))*\) AS (\w+)#\d+")


COORDINATES: Final = ("topic", "partition", "offset", "append_time", "epoch", "decision")
"""The columns of landing that every row has."""
_BITS = 63
"""Offsets are counted as bits of a number that Spark has no sign in."""


@dataclass(frozen=True, slots=True)
class Check:
    """Either ``offends``, a condition that no row may meet, or ``query``, which reads ``{rows}`` and returns one row
    (partition_date, offending) for each partition that fails.

    ``screen``: a cheaper query that returns a row whenever ``query`` would. It is asked first.
    """

    name: str
    says: str
    offends: str = ""
    query: str = ""
    screen: str = ""

    @property
    def alone(self) -> str:
        """The query of this check, of whichever kind."""
        return self.query or (
            f"SELECT {PARTITION_DATE}, count(*) AS offending FROM {{rows}} WHERE {self.offends} "
            f"GROUP BY {PARTITION_DATE}"
        )


def landing_checks(topic: Topic) -> list[Check]:
    """Over landed rows, where ``partition_date`` is the event date."""
    bound = int(topic.future_bound.total_seconds())
    received = "greatest(append_time, coalesce(receivedtime, append_time))"
    first = "FROM {rows} WHERE released_from IS NULL"
    bits = f"bit_count(bit_or(shiftleft(1L, CAST(offset % {_BITS} AS INT))))"
    return [
        *(
            Check(f"{name}_not_null", f"Every landed record has its {name}.", f"`{name}` IS NULL")
            for name in COORDINATES
        ),
        Check(
            "decision_known",
            f"A record is {VALID}, {QUARANTINED} or {DUPLICATE}.",
            f"decision NOT IN ('{VALID}', '{QUARANTINED}', '{DUPLICATE}')",
        ),
        Check(
            "offsets_unique",
            "Every offset of a log partition is landed once; a released record once more, under its own epoch.",
            query=f"SELECT {PARTITION_DATE}, count(*) AS offending "
            f"FROM (SELECT min({PARTITION_DATE}) AS {PARTITION_DATE} {first} "
            f"GROUP BY partition, offset HAVING count(*) > 1) GROUP BY {PARTITION_DATE}",
            # A sixtieth of the groups: of as many rows as offsets in it, none is there twice.
            screen=f"SELECT min({PARTITION_DATE}) AS {PARTITION_DATE}, 1L AS offending {first} "
            f"GROUP BY partition, offset DIV {_BITS} HAVING count(*) > {bits}",
        ),
        Check(
            "event_time_range",
            f"The event time of a valid record is after {topic.earliest_year} began, not over {topic.future_bound} "
            "after its receipt, and on its event date.",
            f"decision = '{VALID}' AND NOT coalesce(event_time >= TIMESTAMP '{topic.earliest_year}-01-01' AND "
            f"event_time <= {received} + INTERVAL {bound} SECONDS AND to_date(event_time) = {PARTITION_DATE}, false)",
        ),
        Check(
            "decisions_complete",
            "A valid record says whether it is late, of which type and by which id; a quarantined one says why.",
            f"(decision = '{VALID}' AND (late IS NULL OR type IS NULL OR event_id IS NULL OR source IS NULL)) "
            f"OR (decision = '{QUARANTINED}' AND reason IS NULL)",
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
            query=f"SELECT {PARTITION_DATE}, count(*) AS offending FROM (SELECT {PARTITION_DATE} FROM {{rows}} "
            f"GROUP BY {PARTITION_DATE}, {keys} HAVING count(*) > 1) GROUP BY {PARTITION_DATE}",
        ),
        Check("key_not_null", f"No column of the key ({', '.join(view.key)}) is null.", none),
    ]
    if counts:
        checks.append(Check("counts_not_negative", f"{', '.join(counts)}: no count is below 0.", negative))
    return checks


def completeness_check() -> Check:
    """Over a build: every partition that ``{settled}`` names has rows in the build, too."""
    return Check(
        "complete",
        "Every partition that has rows in the speed half has rows in the batch half.",
        query=f"SELECT s.{PARTITION_DATE}, count(*) AS offending FROM {{settled}} s LEFT ANTI JOIN {{rows}} b "
        f"ON s.{PARTITION_DATE} = b.{PARTITION_DATE} GROUP BY s.{PARTITION_DATE}",
    )


def equality_check(view: View, columns: Sequence[str]) -> Check:
    """Over the speed half, beside what ``{expected}`` holds: keys that aren't on both sides, or whose rows differ in
    any column."""
    same = " AND ".join(f"s.{_quoted(name)} <=> e.{_quoted(name)}" for name in view.key)
    values = [name for name in columns if name not in (*view.key, PARTITION_DATE)]
    equal = " AND ".join(f"s.{_quoted(name)} <=> e.{_quoted(name)}" for name in values) or "true"
    return Check(
        "both_paths_equal",
        "The speed half equals the view's function over the same events, row by row, in every column.",
        query=f"SELECT coalesce(s.{PARTITION_DATE}, e.{PARTITION_DATE}) AS {PARTITION_DATE}, count(*) AS offending "
        f"FROM (SELECT *, 1 AS {HERE} FROM {{rows}}) s FULL OUTER JOIN (SELECT *, 1 AS {HERE} FROM {{expected}}) e "
        f"ON s.{PARTITION_DATE} <=> e.{PARTITION_DATE} AND {same} "
        f"WHERE s.{HERE} IS NULL OR e.{HERE} IS NULL OR NOT ({equal}) "
        f"GROUP BY coalesce(s.{PARTITION_DATE}, e.{PARTITION_DATE})",
    )


def count_columns(result: DataFrame) -> list[str]:
    """The columns of a view's result that a count made, read off its plan; a sum may well be negative."""
    plan = result._jdf.queryExecution().analyzed().toString()
    return sorted(set(_COUNT.findall(plan)) & set(result.columns))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
