"""A predicate means the same to every engine, or is refused before anything is read. ``tests/spark/serve`` asks Spark
the same."""

from __future__ import annotations

import duckdb
import pytest
from anabranch.core.errors import BadInput
from anabranch.serve._predicates import parse_predicate
from support.one_meaning import REFUSED, SAME, TABLE

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("where", SAME)
def test_what_has_one_meaning_passes(where: str) -> None:
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    found = connection.from_arrow(TABLE).filter(parse_predicate(where, TABLE.schema).duckdb)
    assert sorted(found.to_arrow_table()["n"].to_pylist()) == SAME[where]


@pytest.mark.parametrize("where", REFUSED)
def test_what_engines_would_read_in_different_ways_is_refused(where: str) -> None:
    with pytest.raises(BadInput) as refused:
        parse_predicate(where, TABLE.schema)
    assert (refused.value.code, refused.value.fields["field"]) == ("WHERE_REFUSED", "where")


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ("cast(text as int) = 1", "a cast of a text to integer is not the same in all engines"),
        ("day_of = 'today'", "'today' is no date that all engines read alike; write date '2013-01-31'"),
        ("moment < '2013-11-03 01:30:00 America/New_York'", "clocks are changed then in America/New_York"),
        ("moment < '2013-11-03 01:30:00 America/Nowhere'", "America/Nowhere is no time zone that is known here"),
        ("small * 2 = 1", "cast it to double"),
        ("exact = '2.5'", "write a number without quotes"),
        ("text = 1", "a text and an integer can't be compared"),
        ("whole", "it isn't a condition"),
    ],
)
def test_it_says_what_to_write_instead(where: str, says: str) -> None:
    with pytest.raises(BadInput) as refused:
        parse_predicate(where, TABLE.schema)
    assert says in str(refused.value)
