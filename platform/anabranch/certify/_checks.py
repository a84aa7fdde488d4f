"""The platform's data checks, as SQL: the result of each is the partitions in which something is wrong.

Column names come from a registered view and are quoted. No text from a reader gets into a query.
"""
# ruff: noqa: S608

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from anabranch.ingest.landing.table.schema import DUPLICATE, IS_EVENT, LOADED, QUARANTINED, TOMBSTONE, VALID
from anabranch.views import View
from anabranch.views.model.definition import PARTITION_DATE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

HERE: Final = "_here"
"""A column that is 1 in every row of a side. After an outer join it is null where the side has no row."""
_COUNT = re.compile(r"\b(?:count|count_if)\((?:[^()]|\([^()]*\))*\) AS (\w+)#\d+")


COORDINATES: Final = ("topic", "partition", "offset", "append_time", "epoch", "decision")
"""The columns of landing that are never null."""
_DAY: Final = 86_400_000_000
# In UTC. Spark's own ``to_date`` makes Java's objects of calendar and zone for each row, which takes half of a pass.
_MICROS_OF_DAY: Final = f"unix_micros(event_time) - unix_date({PARTITION_DATE}) * {_DAY}L"
_GROUP: Final = 6
"""The binary logarithm of the offsets per group of the ``offsets_unique`` screen: each is one bit of a LONG."""


@dataclass(frozen=True, slots=True)
class Screen:
    """A test that fails whenever a check's query would find something, and that fits into the pass over all rows in
    which conditions are counted: that pass groups by ``by`` (expressions) as well.

    ``totals``: aggregates of each group, by name, with the function that merges those of a group's parts. ``fails``:
    a condition on them.
    """

    by: Sequence[str]
    totals: Mapping[str, tuple[str, str]] = field(hash=False)
    fails: str


@dataclass(frozen=True, slots=True)
class Check:
    """One check. Has either ``offends``, a condition that no row may meet, or ``query``, which reads ``{rows}`` and
    returns one row (partition_date, offending) per failing partition.

    ``screen``: the query runs only if this fails. One check of a table may have one. ``rare``: the condition is one
    that the files' own statistics (nulls, bounds) can rule out for a whole row group: only the other groups are read.
    """

    name: str
    says: str
    offends: str = ""
    query: str = ""
    screen: Screen | None = None
    rare: bool = False

    @property
    def standalone_query(self) -> str:
        """The query that runs this check by itself, whichever kind it is."""
        return self.query or (
            f"SELECT {PARTITION_DATE}, count(*) AS offending FROM {{rows}} WHERE {self.offends} "
            f"GROUP BY {PARTITION_DATE}"
        )


def landing_checks() -> list[Check]:
    """Return the checks of landed rows, where ``partition_date`` is the event date."""
    bit = f"shiftleft(1L, CAST(offset & {2**_GROUP - 1} AS INT))"
    first = "released_from IS NULL"
    return [
        *(
            Check(f"{name}_not_null", f"Every landed record has its {name}.", f"`{name}` IS NULL", rare=True)
            for name in COORDINATES
        ),
        Check(
            "decision_known",
            f"A record is {VALID}, {LOADED}, {QUARANTINED}, {DUPLICATE} or {TOMBSTONE}; {LOADED}, if it came from a "
            "file.",
            f"decision NOT IN ('{VALID}', '{LOADED}', '{QUARANTINED}', '{DUPLICATE}', '{TOMBSTONE}') "
            f"OR (decision IN ('{VALID}', '{TOMBSTONE}') AND partition < 0) "
            f"OR (decision = '{LOADED}' AND partition >= 0)",
            rare=True,
        ),
        Check(
            "offsets_unique",
            "Every offset of a log partition is landed once; a released record once more, under its own epoch.",
            query=f"SELECT {PARTITION_DATE}, count(*) AS offending "
            f"FROM (SELECT min({PARTITION_DATE}) AS {PARTITION_DATE} FROM {{rows}} WHERE {first} "
            f"GROUP BY partition, offset HAVING count(*) > 1) GROUP BY {PARTITION_DATE}",
            # Groups of 64 offsets: if a group has as many rows as distinct offsets, it has no duplicate.
            screen=Screen(
                ("partition", f"shiftright(offset, {_GROUP})"),
                {"rows": (f"count_if({first})", "sum"), "offsets": (f"bit_or(IF({first}, {bit}, 0L))", "bit_or")},
                "rows > bit_count(offsets)",
            ),
        ),
        # Not the topic's earliest year and future bound: they may have changed since the record was decided.
        Check(
            "event_time_on_its_date",
            "Every event has its event time, on its event date.",
            f"{IS_EVENT} AND NOT coalesce({_MICROS_OF_DAY} BETWEEN 0 AND {_DAY - 1}, false)",
        ),
        Check(
            "decisions_complete",
            "A valid record has its late flag, a loaded one has none; both have type, id and source; a quarantined one "
            "has its reason.",
            f"({IS_EVENT} AND (type IS NULL OR event_id IS NULL OR source IS NULL)) "
            f"OR (decision = '{VALID}' AND late IS NULL) OR (decision = '{LOADED}' AND late IS NOT NULL) "
            f"OR (decision = '{QUARANTINED}' AND reason IS NULL)",
            rare=True,
        ),
    ]


def half_checks(view: View, counts: Sequence[str]) -> list[Check]:
    """Return the checks of a half's rows. ``counts``: the columns that are counts."""
    keys = ", ".join(_quoted(name) for name in view.key)
    negative = " OR ".join(f"{_quoted(name)} < 0" for name in counts)
    checks = [
        Check(
            "key_unique",
            f"No two rows have the same key ({', '.join(view.key)}); a null is a value of its own.",
            query=f"SELECT {PARTITION_DATE}, count(*) AS offending FROM (SELECT {PARTITION_DATE} FROM {{rows}} "
            f"GROUP BY {PARTITION_DATE}, {keys} HAVING count(*) > 1) GROUP BY {PARTITION_DATE}",
        ),
    ]
    if counts:
        checks.append(Check("counts_not_negative", f"{', '.join(counts)}: no count is below 0.", negative))
    return checks


def completeness_check() -> Check:
    """Return the check that every partition in ``{unchanged}`` has rows in the build."""
    return Check(
        "complete",
        "Every partition that has rows in the speed half has rows in the batch half, if both have the same events.",
        query=f"SELECT s.{PARTITION_DATE}, count(*) AS offending FROM {{unchanged}} s LEFT ANTI JOIN {{rows}} b "
        f"ON s.{PARTITION_DATE} = b.{PARTITION_DATE} GROUP BY s.{PARTITION_DATE}",
    )


def equality_check(view: View, columns: Sequence[str]) -> Check:
    """Return the check that compares the speed half with ``{expected}``. It counts the keys that only one side has, or
    whose rows differ in any column."""
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
    """Return the columns that a count produced, read from the result's plan. Sums are left out: they may be
    negative."""
    plan = result._jdf.queryExecution().analyzed().toString()
    return sorted(set(_COUNT.findall(plan)) & set(result.columns))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
