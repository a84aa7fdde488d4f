"""The language of saved searches: read as SQL reads it, refused with a reason, never executed."""

from __future__ import annotations

import time
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from anabranch.views.saved_searches import refusal
from anabranch.views.saved_searches._history import Version, sort_versions
from anabranch.views.saved_searches._index import Index, MatchCost
from anabranch.views.saved_searches._intervals import Kind
from hypothesis import example, given, settings
from hypothesis import strategies as st

from benchmarks import saved_searches

pytestmark = pytest.mark.unit

FIELDS: dict[str, Kind] = {
    "origin": "text",
    "dest": "text",
    "dep_delay": "number",
    "price": "number",
    "share": "double",
    "diverted": "boolean",
    "flight_date": "date",
    "planned": "timestamp",
}
TYPES: dict[str, pa.DataType] = {
    "origin": pa.string(),
    "dest": pa.string(),
    "dep_delay": pa.int64(),
    "price": pa.decimal128(9, 2),
    "share": pa.float64(),
    "diverted": pa.bool_(),
    "flight_date": pa.date32(),
    "planned": pa.timestamp("us"),
    "event_time": pa.timestamp("us", "UTC"),
}
NOON = datetime(2013, 1, 1, 12, tzinfo=UTC)
TEXTS = ["", "J", "JFK", "JFL", "LAX", "N1_%", "n1", "it's", "Ä", "\U0010ffff", "a\nb"]
NUMBERS = [-5, 0, 1, 59, 60, 61, 2**62]
PRICES = [Decimal("-0.01"), Decimal("0.00"), Decimal("9.99"), Decimal("10.00"), Decimal("10.01")]
SHARES = [-1.5, 0.0, 0.1, 0.30000000000000004, 1e300]
DAYS = [date(2012, 12, 31), date(2013, 1, 1), date(2013, 1, 2)]
TIMES = [NOON + timedelta(microseconds=shift) for shift in (-1, 0, 1, 3_600_000_000)]
VALUES: dict[str, list[Any]] = {
    "origin": TEXTS,
    "dest": TEXTS,
    "dep_delay": NUMBERS,
    "price": PRICES,
    "share": SHARES,
    "diverted": [True, False],
    "flight_date": DAYS,
    "planned": TIMES,
}
events = st.fixed_dictionaries({name: st.none() | st.sampled_from(values) for name, values in VALUES.items()})


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def literal(field: str) -> st.SearchStrategy[str]:
    match FIELDS[field]:
        case "text":
            return st.sampled_from(TEXTS).map(quoted)
        case "number":
            return st.sampled_from(["-5", "0", "9.99", "10", "59.5", "60", "60.00", "61", "+1", "9" * 30])
        case "double":
            return st.sampled_from(["-1.5", "0", "0.1", "0.3", "2"])
        case "boolean":
            return st.sampled_from(["true", "FALSE"])
        case "date":
            return st.sampled_from(DAYS).map(lambda day: f"date '{day}'")
        case "timestamp":
            return st.sampled_from(TIMES).map(lambda at: f"timestamp '{at.replace(tzinfo=None)}'")


@st.composite
def conditions(draw: st.DrawFn) -> str:
    field = draw(st.sampled_from(list(FIELDS)))
    kind, value, negated = FIELDS[field], literal(field), draw(st.sampled_from(["", "not "]))
    forms = ["{f} = {a}", "{f} <> {a}", "{a} != {f}", "{f} {n}in ({a}, {b}, {c})", "{f} is {n}null"]
    if kind == "boolean":
        forms.append("{f}")
    else:
        forms += ["{f} < {a}", "{f} <= {a}", "{f} > {a}", "{a} <= {f}", "{f} {n}between {a} and {b}"]
    form = draw(st.sampled_from(forms))
    if kind == "text" and draw(st.booleans()):
        pattern = "".join(draw(st.lists(st.sampled_from(["J", "F", "%", "_", "N1", "Ä", "\n"]), max_size=4)))
        return f"{field} {negated}LIKE {quoted(pattern)}"
    return form.format(f=field, n=negated, a=draw(value), b=draw(value), c=draw(value))


def nested(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    joined = st.tuples(inner, st.sampled_from(["and", "OR"]), inner).map(lambda parts: f"({' '.join(parts)})")
    return joined | inner.map(lambda part: f"not ({part})")


expressions = st.recursive(conditions(), nested, max_leaves=6)


def table(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    rows = [{**row, "event_time": NOON} for row in rows]
    return pa.RecordBatch.from_pylist(rows, schema=pa.schema(list(TYPES.items())))


def matched(texts: list[str], rows: list[dict[str, Any]], work: MatchCost | None = None) -> set[tuple[int, str]]:
    """(row, text) of all that match."""
    index = Index([Version(text, 0, 0, place, text) for place, text in enumerate(sorted(set(texts)))], FIELDS, None)
    pairs = [
        (int(row), index.versions[place].search)
        for found, places in index.match(table(rows), work)
        for row, place in zip(found, places, strict=True)
    ]
    assert len(pairs) == len(set(pairs))
    return set(pairs)


def naively(texts: list[str], rows: list[dict[str, Any]]) -> set[tuple[int, str]]:
    """The same by DuckDB, which reads each text as SQL."""
    with duckdb.connect() as connection:
        connection.register("events", pa.Table.from_batches([table(rows)]).drop_columns("event_time"))
        connection.execute("CREATE TABLE numbered AS SELECT *, row_number() OVER () - 1 AS row FROM events")
        found = {text: connection.execute(f"SELECT row FROM numbered WHERE {text}").fetchall() for text in set(texts)}  # noqa: S608
    return {(row, text) for text, rows_ in found.items() for (row,) in rows_}


@given(st.lists(expressions, min_size=1, max_size=20), st.lists(events, min_size=1, max_size=20))
@settings(max_examples=150, deadline=None)
@example(["not (origin = 'JFK' or dep_delay > 60)"], [dict.fromkeys(FIELDS)])
def test_means_what_sql_means(texts: list[str], rows: list[dict[str, Any]]) -> None:
    for text in texts:
        assert refusal(text, FIELDS) is None
    assert matched(texts, rows) == naively(texts, rows)


def test_the_oracle_sees_a_difference() -> None:
    rows = [{**dict.fromkeys(FIELDS), "dep_delay": delay} for delay in (60, None)]
    assert naively(["dep_delay >= 60"], rows) == {(0, "dep_delay >= 60")}
    assert matched(["dep_delay >= 60"], rows) != naively(["dep_delay > 60"], rows)


@pytest.mark.parametrize(
    ("text", "true_for"),
    [
        ("dep_delay > 60", [61]),
        ("not dep_delay > 60", [59, 60]),
        ("dep_delay > 60 or dep_delay is null", [None, 61]),
        ("not (dep_delay > 60 and origin = 'JFK')", [59, 60]),
        ("dep_delay not in (59, 60)", [61]),
        ("dep_delay <> 60", [59, 61]),
        ("dep_delay >= 59.5", [60, 61]),
        ("dep_delay between 61 and 59", []),
        ("60 < dep_delay", [61]),
    ],
)
def test_null_is_never_a_match(text: str, true_for: list[int | None]) -> None:
    delays = [None, 59, 60, 61]
    rows = [{**dict.fromkeys(FIELDS), "dep_delay": delay} for delay in delays]
    assert [delays[row] for row, _ in sorted(matched([text], rows))] == true_for


def test_not_a_number_is_above_all_numbers() -> None:
    rows = [{**dict.fromkeys(FIELDS), "share": value} for value in (float("nan"), float("inf"), -0.0)]
    assert matched(["share > 9", "share = 0", "share between 0 and 9"], rows) == {
        *((0, "share > 9"), (1, "share > 9"), (2, "share = 0"), (2, "share between 0 and 9")),
    }


REFUSED = {
    "nothing": ("  ", "1 to 10,000 characters"),
    "Python": ("__import__('os').system('id')", "isn't part of the language"),
    "a call": ("lower(origin) = 'jfk'", "where"),
    "a subquery": ("origin in (select dest from x)", "where a value is expected"),
    "two statements": ("origin = 'JFK'; drop table x", "';"),
    "a comment": ("origin = 'JFK' -- and more", "where"),
    "an open text": ("origin = 'JFK", "isn't part of the language"),
    "an open bracket": ("(origin = 'JFK'", "where ) is expected"),
    "a closed bracket": ("origin = 'JFK')", "where the end is expected"),
    "a backslash": ("origin = \\'JFK\\'", "isn't part of the language"),
    "other quotes": ('origin = "JFK"', "isn't part of the language"),
    "other digits": ("dep_delay > ٦٠", "isn't part of the language"),
    "a null byte": ("origin = 'JFK'\0", "isn't part of the language"),
    "a lone surrogate": ("origin = \ud800", "isn't part of the language"),
    "null": ("origin = null", "is null"),
    "no field": ("gate = 'B7'", "there is no field gate"),
    "a field against a field": ("origin = dest", "where a value is expected"),
    "a number for a text": ("origin = 60", "origin is a text"),
    "a text for a number": ("dep_delay > '60'", "dep_delay is a number"),
    "a boolean for a number": ("dep_delay = true", "dep_delay is a number"),
    "an order of booleans": ("diverted > false", "has no order"),
    "a text as a condition": ("origin", "not a condition"),
    "like on a number": ("dep_delay like '6%'", "like compares a text"),
    "an escape in like": ("origin like '5\\%'", "backslash"),
    "a date that isn't": ("flight_date = '2013-02-30'", "isn't one"),
    "a time that isn't": ("planned > '2013-01-01T25:00:00'", "isn't one"),
    "the end of time": ("planned > '9999-12-31T23:59:59-23:59'", None),
    "an exponent": ("dep_delay < 1e9", "isn't part of the language"),
    "a huge number": (f"dep_delay < {'9' * 5000}", "38 digits"),
    "deep brackets": ("(" * 4000 + "diverted" + ")" * 4000, "nested more than 50 deep"),
    "deep not": ("not " * 2000 + "diverted", "nested more than 50 deep"),
    "many conditions": (" or ".join(["diverted"] * 101), "more than 100 conditions"),
    "too long": ("diverted or " * 1000 + "diverted", "10,000 characters"),
    "a long pattern": (f"origin like '{'%_' * 200}'", "200 characters"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_says_why_and_harms_no_other(name: str) -> None:
    text, reason = REFUSED[name]
    why = refusal(text, FIELDS)
    if reason is None:
        assert why is None
        return
    assert why is not None
    assert reason in why
    assert len(why) < 400
    rows = [{**dict.fromkeys(FIELDS), "origin": "JFK", "diverted": True}]
    assert matched([text, "origin = 'JFK'"], rows) == {(0, "origin = 'JFK'")}


@given(st.text(max_size=200) | st.text(alphabet="()'=<>, notandrilke01%_", max_size=200))
@settings(max_examples=500, deadline=None)
def test_any_text_is_read_or_refused(text: str) -> None:
    assert refusal(text, FIELDS) is None or matched([text], [dict.fromkeys(FIELDS)]) == set()


def test_searches_beyond_the_bound_of_boxes_match_as_well() -> None:
    pairs = " and ".join(f"(dep_delay <> {n} or origin like '%{n}%')" for n in range(40))
    many = f"dest in ({', '.join(quoted(str(n)) for n in range(1200))})"
    rows = [{**dict.fromkeys(FIELDS), "dep_delay": n, "origin": "x7", "dest": str(n)} for n in (7, 8, 40, 1199)]
    work, begun = MatchCost(), time.perf_counter()
    assert matched([pairs, many], rows, work) == naively([pairs, many], rows) != set()
    assert work.scanned == 2 * len(rows)
    assert time.perf_counter() - begun < 5


def test_few_searches_are_looked_at_for_each_event() -> None:
    """Of 10,000 searches over real flights, with their history."""
    flights = saved_searches.departures(7)
    history = saved_searches.history(flights, 10_000).with_columns(pl.col("event_time").dt.timestamp("us"))
    versions = [Version(*row) for row in history.select(Version._fields).iter_rows()]
    fields: dict[str, Kind] = {
        "carrier": "text",
        "tailnum": "text",
        "origin": "text",
        "dest": "text",
        "flight": "number",
        "dep_delay": "number",
        "flight_date": "date",
    }
    work = MatchCost()
    batch = flights.head(2_000).to_arrow(compat_level=pl.CompatLevel.oldest()).to_batches()[0]
    found = sum(len(events) for events, _ in Index(sort_versions(versions), fields, None).match(batch, work))
    assert found > 2_000
    assert work.scanned == 0
    assert work.candidates / (2_000 * 10_000) < 0.03


@pytest.mark.parametrize("pattern", ["_" * 200, "%_" * 100, "%Ä" * 100, "[(*+?{|^$.%_" * 16], ids=range(4))
def test_a_hostile_pattern_takes_no_for_ever(pattern: str) -> None:
    rows = [{**dict.fromkeys(FIELDS), "origin": text} for text in ("x" * 1000, "Ä" * 200, "[(*+?{|^$.x" * 16)]
    texts = [f"origin like {quoted(pattern)}", "origin like 'x%x'"]
    begun = time.perf_counter()
    assert matched(texts, rows) == naively(texts, rows)
    assert time.perf_counter() - begun < 20
