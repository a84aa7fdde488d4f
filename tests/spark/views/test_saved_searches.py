"""Saved searches in Spark: as of each event's time, however rows are spread."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest
from anabranch.core.errors import BadDefinition, BadInput
from anabranch.views import load_views
from anabranch.views.check import check
from anabranch.views.saved_searches import fields_of, matches, refused
from pyspark.sql import functions as F
from support.landed_sample import DECLARED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

BEGIN = datetime(2013, 1, 1, tzinfo=UTC)
PLACE = "event_time timestamp, log_partition int, log_offset bigint"
EVENTS = f"{PLACE}, origin string, tailnum string, dep_delay bigint, price decimal(9,2), diverted boolean"
SEARCHES = f"{PLACE}, search string, expression string"
WRONG = ["gate = 'B7'", "dep_delay > 'x'", "", "drop table x", "(((", "__import__('os')"]
Row = dict[str, Any]


def at(minute: int) -> datetime:
    return BEGIN + timedelta(minutes=minute)


def event(chance: random.Random, number: int) -> Row:
    return {
        "event_time": at(chance.randint(0, 30)),
        "log_partition": number % 3,
        "log_offset": number // 3,
        "origin": chance.choice(["JFK", "LGA", "EWR", None]),
        "tailnum": chance.choice(["N1", "N12", "N21", "it's", None]),
        "dep_delay": chance.choice([None, *range(-1, 6)]),
        "price": chance.choice([None, "0.01", "9.99", "10.00"]),
        "diverted": chance.choice([None, True, False]),
    }


def saved(chance: random.Random, number: int) -> Row:
    """One of few names and of few times, so that versions follow each other, also within an instant."""
    text = chance.choice([None, *WRONG, *(expression(chance) for _ in range(30))])
    place = {"log_partition": number % 2, "log_offset": number // 2}
    return {"event_time": at(chance.randint(0, 30)), **place, "search": f"s{chance.randint(0, 25)}", "expression": text}


def expression(chance: random.Random, depth: int = 2) -> str:
    if depth and chance.random() < 0.6:
        both = chance.choice(["and", "and", "or"])
        text = f"({expression(chance, depth - 1)} {both} {expression(chance, depth - 1)})"
        return f"not {text}" if chance.random() < 0.2 else text
    low = chance.randint(-1, 5)
    return chance.choice(
        [
            *(f"origin = '{chance.choice(['JFK', 'LGA'])}'", "origin <> 'EWR'", "origin in ('JFK', 'EWR')"),
            *("tailnum like 'N1%'", "tailnum not like '%2'", "tailnum = 'it''s'", "tailnum is null", "diverted"),
            *(f"dep_delay > {low}", f"dep_delay = {low}", f"dep_delay between {low} and {low + 1}", "price < 9.995"),
        ]
    )


def naively(events: Sequence[Row], searches: Sequence[Row], lasts: int | None) -> set[Any]:
    """Each text as DuckDB reads it, over all events; then for each event the newest version of each search."""
    holds, sent = set[Any](), set[Any]()
    with duckdb.connect() as connection:
        connection.register("events", pa.Table.from_pylist([{**row, "event_time": None} for row in typed(events)]))
        for text in {s["expression"] for s in searches} - {None, *WRONG}:
            found = connection.execute(f"SELECT log_partition, log_offset FROM events WHERE {text}")  # noqa: S608
            holds |= {(*place, text) for place in found.fetchall()}
    for e in events:
        newest: dict[str, Row] = {}
        for s in sorted(searches, key=lambda s: (s["event_time"], s["log_partition"], s["log_offset"])):
            if s["event_time"] <= e["event_time"]:
                newest[s["search"]] = s
        for s in newest.values():
            fresh = lasts is None or e["event_time"] < s["event_time"] + timedelta(minutes=lasts)
            if fresh and (e["log_partition"], e["log_offset"], s["expression"]) in holds:
                sent.add((e["log_partition"], e["log_offset"], s["search"], s["log_partition"], s["log_offset"]))
    return sent


def typed(rows: Sequence[Row]) -> list[Row]:
    return [{**row, "price": Decimal(row["price"]) if row["price"] else None} for row in rows]


def rows_of(found: DataFrame) -> set[Any]:
    columns = ("log_partition", "log_offset", "search", "search_partition", "search_offset")
    rows = [tuple(row) for row in found.select(*columns).collect()]
    assert len(rows) == len(set(rows))
    return set(rows)


@pytest.mark.parametrize(("seed", "lasts"), [(1, None), (2, 10), (3, None)])
def test_equals_trying_every_search(spark: SparkSession, seed: int, lasts: int | None) -> None:
    chance = random.Random(seed)
    events = [event(chance, n) for n in range(120)]
    searches = [saved(chance, n) for n in range(150)]
    expected = naively(events, searches, lasts)
    assert len(expected) > 300

    passing, history = spark.createDataFrame(typed(events), EVENTS), spark.createDataFrame(searches, SEARCHES)
    by = None if lasts is None else f"{lasts} minutes"
    assert rows_of(matches(passing, history, lasts=by)) == expected
    for spread in (1, 3):
        mixed, other = passing.repartition(spread, F.rand(spread)), history.orderBy(F.rand(seed)).repartition(spread)
        changed, removed = other.where("expression IS NOT NULL"), other.where("expression IS NULL")
        assert rows_of(matches(mixed, changed, removed.drop("expression"), lasts=by, tasks=spread)) == expected


def test_the_newest_version_counts_from_its_own_time(spark: SparkSession) -> None:
    """Ties of an instant are decided by the position in the log; an event of that instant is met by the new one."""
    history = [(at(1), 0, 0, "s", "dep_delay = 1"), (at(2), 0, 5, "s", None), (at(2), 0, 4, "s", "dep_delay = 1")]
    history += [(at(3), 0, 6, "s", "dep_delay = 2"), (at(4), 0, 7, "s", "dep_delay <")]
    events = [(at(m), 0, m * 10 + d, None, None, d, None, None) for m in range(6) for d in (1, 2)]
    found = matches(spark.createDataFrame(events, EVENTS), spark.createDataFrame(history, SEARCHES))

    assert rows_of(found) == {(0, 11, "s", 0, 0), (0, 32, "s", 0, 6)}
    assert found.columns[-4:] == ["search", "search_time", "search_partition", "search_offset"]
    assert {row["search_time"].astimezone(UTC) for row in found.collect()} == {at(1), at(3)}


def test_no_searches_and_no_events(spark: SparkSession) -> None:
    none, some = spark.createDataFrame([], EVENTS), spark.createDataFrame([(at(1), 0, 0, "s", "diverted")], SEARCHES)
    one = spark.createDataFrame([(at(1), 0, 0, None, None, 1, None, True)], EVENTS)
    assert matches(none, some).count() == matches(one, some.limit(0)).count() == 0
    assert matches(one, some).count() == 1


def test_refused_searches_are_shown_with_their_reason(spark: SparkSession) -> None:
    texts = [*WRONG, "dep_delay > 1", None]
    history = [(at(1), 0, n, f"s{n}", text) for n, text in enumerate(texts)]
    events = spark.createDataFrame([], EVENTS)
    shown = refused(spark.createDataFrame(history, SEARCHES), events.schema).collect()

    assert {row["search"] for row in shown} == {f"s{n}" for n in range(len(WRONG))}
    assert {row["why"] for row in shown} >= {"there is no field gate; the fields are " + ", ".join(events.columns)}


def test_fields_that_searches_may_not_name(spark: SparkSession) -> None:
    events = spark.createDataFrame([], EVENTS)
    assert fields_of(events.schema, ["origin"]) == {"origin": "text"}
    with pytest.raises(BadInput) as error:
        fields_of(events.schema, ["gate"])
    assert error.value.code == "SEARCH_FIELDS"
    with pytest.raises(BadInput) as error:
        matches(events.withColumn("search", F.lit("x")), spark.createDataFrame([], SEARCHES))
    assert error.value.code == "SEARCH_COLUMNS"


VIEW = """\
from anabranch.views import view
from anabranch.views.saved_searches import matches
from pyspark.sql import functions as F

@view(name="alerts", version=1, events=["flight.departed", "flight.cancelled"], lookback="31 days",
      key=["event_time", "log_partition", "log_offset", "search"], partition_by="event_time", refresh="partitions")
def alerts(departed, saved):
    history = saved.select("event_time", "log_partition", "log_offset", F.col("source").alias("search"),
                           F.col("subject").alias("expression"))
    found = matches(departed{clock}, history, on=("origin", "dest", "dep_delay"), lasts="31 days")
    return found.select("event_time", "log_partition", "log_offset", "search", "origin", "dest", "dep_delay")
"""


def test_passes_as_a_part_of_a_view_and_hides_no_clock(spark: SparkSession, tmp_path: Path) -> None:
    """The contracts of searches stand on a topic of their own: here columns of another type of event stand for them."""
    for clock, right in (("", True), (".where(F.col('event_time') < F.now())", False)):
        folder = tmp_path / str(right)
        folder.mkdir()
        (folder / "alerts.py").write_text(VIEW.format(clock=clock))
        view = load_views(folder, DECLARED).get("alerts")
        if right:
            check(view, spark, DECLARED)
        else:
            with pytest.raises(BadDefinition):
                check(view, spark, DECLARED)
