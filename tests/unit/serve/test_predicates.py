"""A reader's predicate: what people write passes, and nothing but a predicate does."""

from __future__ import annotations

import pyarrow as pa
import pytest
from anabranch.core.errors import BadInput
from anabranch.serve._predicates import MAX_LENGTH, parse_predicate

pytestmark = pytest.mark.unit
COLUMNS = pa.schema(
    [
        ("window_start", pa.timestamp("us", "UTC")),
        ("origin", pa.string()),
        ("flights", pa.int64()),
        ('od"d', pa.string()),
    ]
)


@pytest.mark.parametrize(
    ("text", "duckdb", "spark"),
    [
        ("ORIGIN = 'JFK'", """("origin" = 'JFK')""", "(`origin` = 'JFK')"),
        (
            "flights between 1 and 2 or not flights > -3",
            """(("flights" >= 1 AND "flights" <= 2) OR (NOT ("flights" > -3)))""",
            "((`flights` >= 1 AND `flights` <= 2) OR (NOT (`flights` > -3)))",
        ),
        (
            "flights not between 9007199254740993 and 1e18",
            """(NOT ("flights" >= 9007199254740993 AND "flights" <= 1e18))""",
            "(NOT (`flights` >= 9007199254740993 AND `flights` <= 1e18))",
        ),
        (
            "origin not in ('a', 'O''Hare') and origin is not null",
            """((NOT ("origin" IN ('a', 'O''Hare'))) AND ("origin" IS NOT NULL))""",
            "((NOT (`origin` IN ('a', 'O\\'Hare'))) AND (`origin` IS NOT NULL))",
        ),
        (
            "window_start >= timestamp '2013-01-01 05:00'",
            """("window_start" >= CAST('2013-01-01 05:00' AS TIMESTAMPTZ))""",
            "(`window_start` >= CAST('2013-01-01 05:00' AS TIMESTAMP))",
        ),
        (
            "lower(origin) like 'j%' -- a comment",
            """(lower("origin") LIKE 'j%')""",
            "(lower(`origin`) LIKE 'j%')",
        ),
        ('"od""d" = \'${spark.app.id}\\\'', """("od""d" = '${spark.app.id}\\')""", None),
    ],
)
def test_a_predicate_is_the_same_for_both_engines(text: str, duckdb: str, spark: str | None) -> None:
    found = parse_predicate(text, COLUMNS)

    assert found.duckdb == duckdb
    assert found.spark == (spark or "(`od\"d` = '\\u0024{spark.app.id}\\\\')")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1 = 1; DROP TABLE t",
        "1 = 1) UNION (SELECT 1",
        "1 = 1) UNION ALL SELECT 1 FROM t WHERE (1 = 1",
        "1 = 1); SELECT (1",
        "1 = 1) LIMIT (1",
        "1 = 1) GROUP BY (1",
        "1 = 1) ORDER BY (1",
        "flights = (SELECT 1)",
        "EXISTS (SELECT 1 FROM read_csv('/etc/passwd'))",
        "origin IN (SELECT content FROM read_text('/etc/passwd'))",
        "read_text('/etc/passwd') IS NULL",
        "getenv('HOME') = 'x'",
        "current_setting('TimeZone') = 'UTC'",
        "sum(flights) > 1",
        "row_number() over () = 1",
        "flights = ?",
        "flights = $1",
        "* IS NULL",
        "t.flights = 1",
        "_epoch = 1",
        "partition_date = '2013-01-01'",
        "TRY_CAST(origin AS INT) = 1",
        "origin LIKE 'a\\_b'",
        "origin LIKE lower(origin)",
        "list_transform([1], x -> x)[1] = 1",
        "flights = 'unterminated",
        "flights" + "+1" * 100 + " = 1",
        "(" * 4 + "flights > 0" + " between true and true)" * 4,
        "flights = 1 OR " * MAX_LENGTH + "TRUE",
        "flights\0 = 1",
    ],
)
def test_whatever_is_more_than_a_predicate_is_refused(text: str) -> None:
    with pytest.raises(BadInput) as refused:
        parse_predicate(text, COLUMNS)

    assert refused.value.code == "WHERE_REFUSED"
    assert refused.value.fields["field"] == "where"


def test_numbers_next_to_small_floats_are_compared_as_such_by_both_engines() -> None:
    """DuckDB does so by itself; Spark would compare doubles, and find no 0.1."""
    exact = "Small = 0.1 and small in (-0.5, 2) and 3 < small and small between .1 and 4"
    doubles = "small = 1e-1 and small in (0.1, 1e-1) and flights = 0.1 and 0.1 < 1 and small between 1e-1 and flights"
    schema = pa.schema([("small", pa.float32()), ("flights", pa.float64())])
    found, left = (parse_predicate(text, schema) for text in (exact, doubles))
    assert (
        found.duckdb
        == """(("small" = 0.1) AND ("small" IN (-0.5, 2)) AND (3 < "small") AND ("small" >= .1 AND "small" <= 4))"""
    )
    assert found.spark == (
        "((`small` = CAST('0.1' AS FLOAT)) AND (`small` IN (CAST('-0.5' AS FLOAT), CAST('2' AS FLOAT))) AND "
        "(CAST('3' AS FLOAT) < `small`) AND (`small` >= CAST('.1' AS FLOAT) AND `small` <= CAST('4' AS FLOAT)))"
    )
    assert left.spark == left.duckdb.replace('"', "`")
    both = parse_predicate("small between 0.1 and flights", schema)
    assert both.duckdb == """("small" >= 0.1 AND "small" <= "flights")"""
    assert both.spark == "(`small` >= CAST('0.1' AS FLOAT) AND `small` <= `flights`)"


@pytest.mark.parametrize(
    ("text", "times"),
    [
        ("origin = 'JFK' and flights > 1", False),
        ("day_of = date '2013-01-01' and year(day_of) = 2013", False),
        ("WINDOW_START > '2013-01-01'", True),
        ("not (origin = 'a' or coalesce(window_start, window_start) is null)", True),
        ("day_of < timestamp '2013-01-01 05:00'", True),
        ("hour(day_of) in (1, 2)", True),
    ],
)
def test_it_is_known_whether_a_predicate_depends_on_a_time_zone(text: str, times: bool) -> None:
    schema = pa.schema([*COLUMNS, ("day_of", pa.date32())])
    assert parse_predicate(text, schema).has_times(schema) is times
