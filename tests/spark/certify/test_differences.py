"""A difference names the key, the column, both values and the events behind the row."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from anabranch.certify.certify_partitions import compare
from anabranch.certify.differences import Cell, Difference, differences
from anabranch.certify.late_changes import LateChanges, late_changes, wrong_partitions
from anabranch.certify.reconciliation import reconcile
from anabranch.certify.rendering import render_differences
from anabranch.core.settings import Settings
from anabranch.lake.cut import Cut
from anabranch.views import View
from anabranch.views.model.handle import ViewHandle
from support import departure_halves
from support.departure_halves import DAYS, DELAYS, NEWEST, TOPIC, Departure

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

JFK5 = [Departure("01 05:10", "JFK", 3), Departure("01 05:20", "JFK", 4)]
EPOCHS = [
    [*JFK5, Departure("01 06:00", "EWR", 1), Departure("01 05:59", "LGA", 9)],
    [Departure("02 05:10", "JFK", 1), Departure("01 05:30", "JFK", 90, late=True), Departure("02 05:30", "LGA", 2)],
]


@pytest.fixture
def cut(spark: SparkSession, settings: Settings) -> Cut:
    found = departure_halves.land(settings, EPOCHS)
    departure_halves.stream(spark, settings, DELAYS, found)
    return found


def _spoil(settings: Settings, cut: Cut, origin: str, *, drop: bool = False, add: int = 0) -> None:
    rows = departure_halves.speed_rows_of(settings, DELAYS)
    kept = [
        row | ({"flights": row["flights"] + add} if row["origin"] == origin else {})
        for row in rows.to_pylist()
        if not (drop and row["origin"] == origin)
    ]
    departure_halves.spoil(settings, DELAYS, cut, pa.Table.from_pylist(kept, rows.schema))


def _offsets(difference: Difference) -> list[int]:
    return [event.offset for event in difference.events]


def _rows(departed: DataFrame) -> DataFrame:
    return departed.select("event_time", "log_partition", "log_offset", "origin", "dep_delay")


ROWS = View(
    "each", 1, ("flight.departed",), ("event_time", "log_partition", "log_offset"), _rows, "event_time",
    fingerprint="each-1",
)  # fmt: skip


def test_a_row_whose_key_is_an_event_s_place_is_named_with_that_event(spark: SparkSession, settings: Settings) -> None:
    cut = departure_halves.land(settings, EPOCHS)
    departure_halves.stream(spark, settings, ROWS, cut)
    rows = departure_halves.speed_rows_of(settings, ROWS)
    wrong = [row | ({"dep_delay": row["dep_delay"] + 1} if row["log_offset"] == 1 else {}) for row in rows.to_pylist()]
    departure_halves.spoil(settings, ROWS, cut, pa.Table.from_pylist(wrong, rows.schema))

    (found,) = differences(spark, ViewHandle(settings, ROWS, TOPIC), DAYS[0])
    assert (found.cells, _offsets(found), found.event_count, found.verified) == (
        (Cell("dep_delay", 5, 4),),
        [1],
        1,
        True,
    )


def test_equal_sides_have_no_differences(spark: SparkSession, settings: Settings, cut: Cut) -> None:
    assert differences(spark, ViewHandle(settings, DELAYS, TOPIC), DAYS[0]) == []


def test_a_changed_value_comes_with_key_column_values_and_events(
    spark: SparkSession, settings: Settings, cut: Cut
) -> None:
    _spoil(settings, cut, "JFK", add=1)

    (found,) = differences(spark, ViewHandle(settings, DELAYS, TOPIC), DAYS[0])

    assert (found.kind, found.key["origin"], found.cells) == ("changed", "JFK", (Cell("flights", 3, 2),))
    assert _offsets(found) == [0, 1], "the late event is no part of what the speed half should hold"
    assert (found.event_count, found.verified) == (2, True)
    text = render_differences(DELAYS, DAYS[0], [found])
    assert "flights[0]@0" in text
    assert "delay_minutes" not in text, "a cell that doesn't differ isn't shown"


def test_a_missing_row_shows_what_should_be_there(spark: SparkSession, settings: Settings, cut: Cut) -> None:
    _spoil(settings, cut, "LGA", drop=True)

    (found,) = differences(spark, ViewHandle(settings, DELAYS, TOPIC), DAYS[0])

    assert (found.kind, found.key["origin"], _offsets(found), found.verified) == ("missing", "LGA", [3], True)
    assert Cell("delay_minutes", None, 9) in found.cells


def test_an_extra_row_has_no_events_behind_it(spark: SparkSession, settings: Settings, cut: Cut) -> None:
    rows = departure_halves.speed_rows_of(settings, DELAYS)
    extra = next(row for row in rows.to_pylist() if row["origin"] == "EWR") | {"origin": "XXX"}
    departure_halves.spoil(settings, DELAYS, cut, pa.concat_tables([rows, pa.Table.from_pylist([extra], rows.schema)]))

    (found,) = differences(spark, ViewHandle(settings, DELAYS, TOPIC), DAYS[0])

    assert (found.kind, found.key["origin"], found.events, found.verified) == ("extra", "XXX", (), False)


def test_a_row_that_is_there_twice_is_seen(spark: SparkSession, settings: Settings, cut: Cut) -> None:
    rows = departure_halves.speed_rows_of(settings, DELAYS)
    row = next(row for row in rows.to_pylist() if row["origin"] == "EWR")
    departure_halves.spoil(settings, DELAYS, cut, pa.concat_tables([rows, pa.Table.from_pylist([row], rows.schema)]))

    (found,) = differences(spark, ViewHandle(settings, DELAYS, TOPIC), DAYS[0])

    assert (found.kind, found.key["origin"], found.cells) == ("repeated", "EWR", (Cell("(times)", 2, 1),))


def test_a_kappa_view_s_difference_has_its_late_events_too(spark: SparkSession, settings: Settings, cut: Cut) -> None:
    departure_halves.stream(spark, settings, NEWEST, cut)
    rows = departure_halves.speed_rows_of(settings, NEWEST)
    wrong = [row | {"flights": 1} for row in rows.to_pylist()]
    departure_halves.spoil(settings, NEWEST, cut, pa.Table.from_pylist(wrong, rows.schema))

    (found,) = differences(spark, ViewHandle(settings, NEWEST, TOPIC), None)

    assert (found.cells, found.event_count, found.verified) == ((Cell("flights", 1, 7),), 7, True)


def _odd(departed: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    return departed.select(
        "event_time", "log_partition", "log_offset", F.expr("double('NaN')").alias("ratio"),
        F.create_map(F.lit("b"), "dep_delay", F.lit("a"), F.lit(1)).alias("labels"),
        F.array(F.struct(F.create_map(F.lit("x"), "origin").alias("m"))).alias("nested"),
    )  # fmt: skip


ODD = View("odd", 1, ROWS.events, ROWS.key, _odd, "event_time", fingerprint="odd-1")


def test_maps_and_nan_are_compared_by_what_they_hold(spark: SparkSession, settings: Settings) -> None:
    odd = ViewHandle(settings, ODD, TOPIC)
    cut = departure_halves.land(settings, EPOCHS)
    departure_halves.stream(spark, settings, ODD, cut)
    rows = departure_halves.speed_rows_of(settings, ODD)
    turned = [row | {"labels": row["labels"][::-1]} for row in rows.to_pylist()]
    departure_halves.spoil(settings, ODD, cut, pa.Table.from_pylist(turned, rows.schema))
    assert reconcile(spark, odd, "right", None, DAYS[:1]).equal == (DAYS[0],)

    wrong = [row | ({"labels": [("a", 1), ("b", 9)]} if row["log_offset"] == 1 else {}) for row in turned]
    departure_halves.spoil(settings, ODD, cut, pa.Table.from_pylist(wrong, rows.schema))
    verdict = reconcile(spark, odd, "wrong", None, DAYS[:1])
    assert "both_paths_equal on speed half failed for 1" in verdict.refused[DAYS[0]]
    (found,) = differences(spark, odd, DAYS[0])
    assert [cell.column for cell in found.cells] == ["labels"], "NaN is NaN"
    assert (_offsets(found), found.verified) == ([1], True)


def test_late_changes_say_what_late_events_did_to_each_day(spark: SparkSession, settings: Settings, cut: Cut) -> None:
    delays = ViewHandle(settings, DELAYS, TOPIC)
    cut = departure_halves.land(settings, [[Departure("01 23:00", "EWR", late=True)]])
    departure_halves.stream(spark, settings, DELAYS, cut)
    build = departure_halves.build(spark, settings, DELAYS, cut, DAYS[:2])

    found = late_changes(compare(spark, delays, DAYS[:2], build), build)

    assert found == [LateChanges(DAYS[0], 2, added=1, changed=1), LateChanges(DAYS[1], 0)]
    assert not any(change.doubtful for change in found)
    assert wrong_partitions(spark, delays, build, DAYS[:2]) == []


def test_a_build_that_late_events_do_not_explain_is_doubtful_and_found_wrong(
    spark: SparkSession, settings: Settings, cut: Cut
) -> None:
    delays = ViewHandle(settings, DELAYS, TOPIC)
    rows = departure_halves.speed_rows_of(settings, DELAYS).drop_columns(["_epoch"])
    wrong = [row | ({"flights": 7} if row["partition_date"] == DAYS[0] else {}) for row in rows.to_pylist()]
    build = departure_halves.stage(settings, DELAYS, cut, DAYS[:2], pa.Table.from_pylist(wrong, rows.schema))

    found = late_changes(compare(spark, delays, DAYS[:2], build), build)

    assert [change.doubtful for change in found] == [True, False]
    assert wrong_partitions(spark, delays, build, DAYS[:2]) == DAYS[:1]
