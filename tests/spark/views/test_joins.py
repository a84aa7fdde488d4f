"""``as_of`` against a naive reading of it, over random rows with many equal times."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from anabranch.views.joins import as_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.property]

NOON = datetime(2013, 1, 1, 12, tzinfo=UTC)
SCHEMA = "key string, event_time timestamp, log_partition int, log_offset bigint, n int"
Row = dict[str, Any]


def drawn(seed: int, count: int) -> list[Row]:
    chance = random.Random(seed)
    return [
        {
            "key": chance.choice(["a", "b", "c", None]),
            "event_time": NOON + timedelta(minutes=chance.randint(0, 40)),
            "log_partition": chance.randint(0, 2),
            "log_offset": offset,
            "n": chance.choice([1, 2, None]),
        }
        for offset in range(count)
    ]


def naive(left: list[Row], right: list[Row], within: timedelta | None) -> list[tuple[Row, Row | None]]:
    def order(row: Row) -> tuple[Any, ...]:
        return (row["event_time"], row["log_partition"], row["log_offset"])

    def told(row: Row) -> Row | None:
        then, key = row["event_time"], row["key"]
        known = [r for r in right if key is not None and r["key"] == key and r["event_time"] <= then]
        newest = max(known, key=order, default=None)
        fits = newest is not None and (within is None or newest["event_time"] > then - within)
        return newest if fits else None

    return [(row, told(row)) for row in left]


@pytest.mark.parametrize("within", [None, timedelta(minutes=5)])
@pytest.mark.parametrize("seed", [1, 2])
def test_each_row_gets_what_was_true_at_its_time(spark: SparkSession, seed: int, within: timedelta | None) -> None:
    left, right = drawn(seed, 120), drawn(seed + 100, 25)
    frames = [spark.createDataFrame(rows, SCHEMA).repartition(3) for rows in (left, right)]
    found = as_of(*frames, on="key", into="told", within=within).toArrow().to_pylist()

    def by_place(pair: tuple[Row, Row | None]) -> int:
        return int(pair[0]["log_offset"])

    pairs = [({n: v for n, v in row.items() if n != "told"}, row["told"]) for row in found]
    assert sorted(pairs, key=by_place) == sorted(naive(left, right, within), key=by_place)
    assert any(told for _, told in pairs)
