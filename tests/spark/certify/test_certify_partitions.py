"""A certificate is green when both paths agree at one cut, and red for every single thing that is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from anabranch.certify.certificates import BUILD, RECOMPUTED, newest_certificates, record
from anabranch.certify.certify_partitions import certify
from anabranch.core.errors import Conflict, TryAgain
from anabranch.core.settings import Settings
from anabranch.lake.cut import Cut
from anabranch.lake.layout import VersionRef
from anabranch.views.model.handle import ViewHandle
from support import departure_halves
from support.departure_halves import DAYS, DELAYS, NEWEST, TOPIC, Departure

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

EPOCHS = [
    [Departure("01 05:10", "JFK", 3), Departure("01 05:20", "JFK", 4), Departure("01 06:00", "EWR")],
    [Departure("02 05:10", "JFK", 1), Departure("02 05:20", "LGA", 4), Departure("03 06:00", "EWR")],
]
LATE = Departure("01 05:30", "JFK", 90, late=True)


@pytest.fixture
def cut(settings: Settings) -> Cut:
    return departure_halves.land(settings, EPOCHS)


def test_equal_paths_are_certified_day_by_day(spark: SparkSession, settings: Settings, cut: Cut) -> None:
    departure_halves.stream(spark, settings, DELAYS, cut)

    certificates = certify(spark, ViewHandle(settings, DELAYS, TOPIC), DAYS, run="r1")

    assert [(c.partition, c.equal, c.speed.rows, c.method) for c in certificates] == [
        (DAYS[0], True, 2, RECOMPUTED),
        (DAYS[1], True, 2, RECOMPUTED),
        (DAYS[2], True, 1, RECOMPUTED),
    ]
    assert {c.cut for c in certificates} == {cut}


def test_a_late_event_alone_leaves_the_certificate_green(spark: SparkSession, settings: Settings, cut: Cut) -> None:
    cut = departure_halves.land(settings, [[LATE]])
    departure_halves.stream(spark, settings, DELAYS, cut)
    build = departure_halves.build(spark, settings, DELAYS, cut, DAYS)

    certificates = certify(spark, ViewHandle(settings, DELAYS, TOPIC), DAYS, build)

    assert [(c.equal, c.late_events, c.method) for c in certificates] == [
        (True, 1, RECOMPUTED),
        (True, 0, BUILD),
        (True, 0, BUILD),
    ]


def test_a_build_of_an_older_cut_is_trusted_for_untouched_days_only(
    spark: SparkSession, settings: Settings, cut: Cut
) -> None:
    build = departure_halves.build(spark, settings, DELAYS, cut, DAYS)
    newer = departure_halves.land(settings, [[Departure("02 07:00", "JFK")]])
    departure_halves.stream(spark, settings, DELAYS, newer)

    certificates = certify(spark, ViewHandle(settings, DELAYS, TOPIC), DAYS, build)

    assert [(c.equal, c.method) for c in certificates] == [(True, BUILD), (True, RECOMPUTED), (True, BUILD)]


def _first(column: str, change: Callable[[int], int | None]) -> Callable[[pa.Table], pa.Table]:
    def changed(rows: pa.Table) -> pa.Table:
        values = rows[column].to_pylist()
        values[0] = change(values[0])
        return rows.set_column(rows.schema.get_field_index(column), column, pa.array(values, rows[column].type))

    return changed


BROKEN: dict[str, Callable[[pa.Table], pa.Table]] = {
    "off by one": _first("flights", lambda n: n + 1),
    "another value": _first("delay_minutes", lambda n: -n - 7),
    "a null": _first("delay_minutes", lambda n: None),
    "a row is missing": lambda rows: rows.slice(1),
    "a row is there twice": lambda rows: pa.concat_tables([rows, rows.slice(0, 1)]),
    "a row too many": lambda rows: pa.concat_tables([rows, _first("flights", lambda n: n + 5)(rows.slice(0, 1))]),
}


@pytest.mark.parametrize("method", [RECOMPUTED, BUILD])
def test_whatever_is_wrong_in_one_day_turns_that_day_red(
    spark: SparkSession, settings: Settings, cut: Cut, method: str
) -> None:
    build = departure_halves.build(spark, settings, DELAYS, cut, DAYS) if method == BUILD else None
    departure_halves.stream(spark, settings, DELAYS, cut)
    rows = departure_halves.speed_rows_of(settings, DELAYS).sort_by("window_start")
    found = {}
    for what, broken in BROKEN.items():
        departure_halves.spoil(settings, DELAYS, cut, broken(rows))
        certificates = certify(spark, ViewHandle(settings, DELAYS, TOPIC), DAYS, build)
        assert {c.method for c in certificates} == {method}
        found[what] = [c.equal for c in certificates]

    assert found == {what: [False, True, True] for what in BROKEN}


def test_a_build_that_is_wrong_is_not_certified(spark: SparkSession, settings: Settings, cut: Cut) -> None:
    departure_halves.stream(spark, settings, DELAYS, cut)
    rows = departure_halves.speed_rows_of(settings, DELAYS).drop_columns(["_epoch"]).sort_by("window_start")
    wrong = departure_halves.stage(settings, DELAYS, cut, DAYS, rows.slice(0, rows.num_rows - 1))

    certificates = certify(spark, ViewHandle(settings, DELAYS, TOPIC), DAYS, wrong)

    assert [c.equal for c in certificates] == [True, True, False]


def test_nulls_that_change_places_are_another_row(spark: SparkSession) -> None:
    from anabranch.certify.row_hashes import checksums

    frames = {
        name: spark.createDataFrame([row], "a string, b string, partition_date date")
        for name, row in {"left": ("x", None, DAYS[0]), "right": (None, "x", DAYS[0])}.items()
    }

    sums = checksums(frames)

    assert sums["left", DAYS[0]] != sums["right", DAYS[0]]


@pytest.mark.parametrize(
    ("kind", "left", "right"),
    [
        ("struct<a string, b string>", ("x", None), (None, "x")),
        ("struct<a string, b string>", (None, None), None),
        ("array<string>", ["x", None], [None, "x"]),
        ("array<string>", ["x"], ["x", None]),
        ("array<array<boolean>>", [[True], [False]], [[True, False]]),
        ("array<struct<a int, b int>>", [(1, None)], [(None, 1)]),
        ("map<string, string>", {"a": None, "b": "x"}, {"a": "x", "b": None}),
        ("map<string, struct<a int, b int>>", {"a": (1, None)}, {"a": (None, 1)}),
        ("map<string, map<string, int>>", {"a": {}}, {"a": None}),
    ],
)
def test_values_inside_of_a_column_that_change_places_are_another_row(
    spark: SparkSession, kind: str, left: Any, right: Any
) -> None:
    from anabranch.certify.row_hashes import checksums

    frames = {
        name: spark.createDataFrame([(value, DAYS[0])], f"c {kind}, partition_date date")
        for name, value in {"left": left, "again": left, "right": right}.items()
    }
    sums = checksums(frames)
    assert sums["left", DAYS[0]] == sums["again", DAYS[0]] != sums["right", DAYS[0]]


def test_the_order_of_a_map_s_keys_is_no_difference(spark: SparkSession) -> None:
    from anabranch.certify.row_hashes import checksums

    pairs = ("'a', map('x', 1, 'y', 2), 'b', NULL", "'b', NULL, 'a', map('y', 2, 'x', 1)")
    rows = (spark.sql(f"SELECT array(map({each})) AS c, DATE '2013-01-01' AS partition_date") for each in pairs)
    sums = checksums(dict(zip(("left", "right"), rows, strict=True)))
    assert sums["left", DAYS[0]] == sums["right", DAYS[0]]


def test_a_row_of_plain_columns_has_the_hash_that_it_always_had(spark: SparkSession) -> None:
    from anabranch.certify.row_hashes import row_hash

    row = spark.sql("SELECT 'x' AS b, 1 AS a, CAST(NULL AS DOUBLE) AS c")
    always = row.selectExpr("xxhash64(a, a IS NULL, b, b IS NULL, c, c IS NULL)")
    assert row.select(row_hash(row.schema)).first() == always.first()


def test_a_kappa_view_is_certified_as_a_whole_with_its_late_events(
    spark: SparkSession, settings: Settings, cut: Cut
) -> None:
    newest = ViewHandle(settings, NEWEST, TOPIC)
    cut = departure_halves.land(settings, [[LATE]])
    departure_halves.stream(spark, settings, NEWEST, cut)

    (green,) = certify(spark, newest, [])
    departure_halves.spoil(settings, NEWEST, cut, departure_halves.speed_rows_of(settings, NEWEST).slice(1))
    (red,) = certify(spark, newest, [])

    assert (green.partition, green.equal, red.equal) == (None, True, False)


def test_certificates_are_kept_once_a_run_and_the_newest_holds(
    spark: SparkSession, settings: Settings, cut: Cut
) -> None:
    delays = ViewHandle(settings, DELAYS, TOPIC)
    departure_halves.stream(spark, settings, DELAYS, cut)
    first = certify(spark, delays, DAYS, run="r1")
    record(settings, first)
    record(settings, first)
    departure_halves.spoil(settings, DELAYS, cut, departure_halves.speed_rows_of(settings, DELAYS).slice(0, 0))
    second = certify(spark, delays, DAYS[:1], run="r2")
    record(settings, second)

    kept = newest_certificates(VersionRef(settings, "delays", 1))

    assert kept == {DAYS[0]: second[0], DAYS[1]: first[1], DAYS[2]: first[2]}
    assert not kept[DAYS[0]].equal


def test_a_view_without_a_commit_and_a_changed_definition_are_refused(
    spark: SparkSession, settings: Settings, cut: Cut
) -> None:
    with pytest.raises(TryAgain) as early:
        certify(spark, ViewHandle(settings, DELAYS, TOPIC), DAYS)
    departure_halves.stream(spark, settings, DELAYS, cut)
    from dataclasses import replace

    with pytest.raises(Conflict) as changed:
        certify(spark, ViewHandle(settings, replace(DELAYS, fingerprint="delays-2"), TOPIC), DAYS)

    assert (early.value.code, changed.value.code) == ("VIEW_NOT_READY", "DEFINITION_CHANGED")
