"""The whole judgement of a build: verdict, certificates, Data Docs; each thing that is wrong refuses its day only."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import halves
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from anabranch.batch import Build, publish, rebuild
from anabranch.errors import BrokenState
from anabranch.reconcile.certificates import newest_certificates
from anabranch.reconcile.judge import reconcile
from anabranch.reconcile.verdict import read_verdict, verdict_path
from anabranch.settings import Settings
from anabranch.tables import Cut
from anabranch.tables.layout import batch_table
from halves import DAYS, DELAYS, NEWEST, TOPIC, Departure

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

EPOCHS = [
    [Departure("01 05:10", "JFK", 3), Departure("01 05:20", "JFK", 4), Departure("01 06:00", "EWR", 1)],
    [Departure("02 05:10", "JFK", 1), Departure("03 05:30", "LGA", 2), Departure("01 05:30", "JFK", 90, late=True)],
]


@pytest.fixture
def cut(spark: SparkSession, settings: Settings) -> Cut:
    found = halves.land(settings, EPOCHS)
    halves.stream(spark, settings, DELAYS, found)
    return found


@pytest.fixture
def build(spark: SparkSession, settings: Settings, cut: Cut) -> Build:
    return rebuild(spark, settings, DELAYS, TOPIC, DAYS, "run-1")


def test_a_good_build_is_equal_everywhere_and_says_what_late_events_changed(
    spark: SparkSession, settings: Settings, build: Build
) -> None:
    verdict = reconcile(spark, settings, DELAYS, TOPIC, "run-1", build)

    assert (verdict.equal, dict(verdict.refused), verdict.report) == (tuple(DAYS), {}, "")
    assert [(c.late_events, c.rows) for c in verdict.late_changes] == [(1, 1), (0, 0), (0, 0)]
    assert read_verdict(settings, "delays", 1, "run-1") == verdict
    assert set(newest_certificates(settings, "delays", 1)) == set(DAYS)
    page = Path(verdict.data_docs).read_text()
    assert all(table in page for table in ("landing", "speed half", "batch half"))
    index = (settings.home / "data_docs" / "index.html").read_text()
    assert "delays/v1/run-1/index.html" in index
    assert publish(settings, DELAYS, build, verdict.equal) is not None


def test_a_wrong_row_refuses_its_day_in_words_and_the_others_pass(
    spark: SparkSession, settings: Settings, cut: Cut, build: Build
) -> None:
    rows = halves.speed_rows_of(settings, DELAYS)
    wrong = [r | ({"flights": r["flights"] + 1} if r["partition_date"] == DAYS[1] else {}) for r in rows.to_pylist()]
    halves.spoil(settings, DELAYS, cut, pa.Table.from_pylist(wrong, rows.schema))

    verdict = reconcile(spark, settings, DELAYS, TOPIC, "run-1", build)

    assert verdict.equal == (DAYS[0], DAYS[2])
    assert "the halves differ at flights@2" in verdict.refused[DAYS[1]]
    assert "both_paths_equal on speed half failed for 1" in verdict.refused[DAYS[1]]
    assert "flights[0]@3" in verdict.report
    assert not newest_certificates(settings, "delays", 1)[DAYS[1]].equal


def _rewrite(settings: Settings, build: Build, day: str, change: dict[str, object]) -> None:
    for file in build.files:
        if file.partition["partition_date"] == day:
            path = Path(batch_table(settings, "delays", 1)) / file.path
            rows = pq.ParquetFile(path).read()
            (path.parent / f".{path.name}.crc").unlink()  # else Hadoop sees the change before we do
            pq.write_table(pa.Table.from_pylist([r | change for r in rows.to_pylist()], rows.schema), path)


def test_a_build_that_was_spoilt_is_refused_for_what_was_done_to_each_day(
    spark: SparkSession, settings: Settings, build: Build
) -> None:
    for day, change in zip(DAYS, ({"flights": 77}, {"flights": -1}, {"origin": None}), strict=True):
        _rewrite(settings, build, str(day), change)

    verdict = reconcile(spark, settings, DELAYS, TOPIC, "run-1", build)

    assert set(verdict.refused) == set(DAYS)
    assert "the build isn't what the view's function gives" in verdict.refused[DAYS[0]]
    assert "counts_not_negative on batch half failed for 1" in verdict.refused[DAYS[1]]
    assert "key_not_null on batch half failed for 1" in verdict.refused[DAYS[2]]


def test_a_day_that_the_build_lacks_and_a_key_that_is_there_twice_are_refused(
    spark: SparkSession, settings: Settings, cut: Cut, build: Build
) -> None:
    from dataclasses import replace

    rows = halves.speed_rows_of(settings, DELAYS)
    twice = pa.Table.from_pylist([r for r in rows.to_pylist() if r["partition_date"] == DAYS[1]], rows.schema)
    halves.spoil(settings, DELAYS, cut, pa.concat_tables([rows, twice]))
    lacking = tuple(file for file in build.files if file.partition["partition_date"] != str(DAYS[2]))

    verdict = reconcile(spark, settings, DELAYS, TOPIC, "run-1", replace(build, files=lacking))

    assert set(verdict.refused) == {DAYS[1], DAYS[2]}
    assert "key_unique on speed half failed for 1" in verdict.refused[DAYS[1]]
    assert "complete on batch half failed for 1" in verdict.refused[DAYS[2]]


def test_landing_itself_is_checked(spark: SparkSession, settings: Settings, cut: Cut, build: Build) -> None:
    from anabranch import tables
    from anabranch.tables.layout import landing_table

    table = tables.commits.open_table(landing_table(settings, TOPIC.name))
    assert table is not None
    rows = table.to_pyarrow_table()
    again = pa.Table.from_pylist([r for r in rows.to_pylist() if r["event_date"] == DAYS[1]], rows.schema)
    staged = tables.stage_arrow(again, landing_table(settings, TOPIC.name), "again", "event_date")
    tables.append(table, staged, tables.Note("landing/flights", "again", cut))

    verdict = reconcile(spark, settings, DELAYS, TOPIC, "run-1", build)

    assert "offsets_unique on landing failed for 1" in verdict.refused[DAYS[1]]
    assert set(verdict.refused) == {DAYS[1]}


def test_a_kappa_view_is_judged_as_a_whole(spark: SparkSession, settings: Settings, cut: Cut) -> None:
    halves.stream(spark, settings, NEWEST, cut)

    verdict = reconcile(spark, settings, NEWEST, TOPIC, "run-2", None)

    assert (verdict.whole, verdict.equal, dict(verdict.refused)) == ("equal", (), {})


def test_a_check_that_breaks_counts_as_failed(spark: SparkSession, settings: Settings, cut: Cut) -> None:
    from anabranch.reconcile.checks import Check
    from anabranch.reconcile.suite import Subject, great_expectations, run_suite

    great_expectations()
    from anabranch.reconcile.expectations import ExpectNoPartitionToOffend

    broken = ExpectNoPartitionToOffend.of(
        Check("broken", "It reads a column that isn't there.", "SELECT x FROM {batch}")
    )
    frame = spark.createDataFrame([(1,)], "k int")

    result = run_suite(settings, DELAYS, "run-3", [Subject("speed half", frame, [broken])])

    assert [(f.check, f.partition) for f in result.failed_in(DAYS[0])] == [("broken", None)]
    assert "UNRESOLVED_COLUMN" in result.failed[0].error


def test_a_run_without_a_verdict_may_not_be_published(settings: Settings) -> None:
    verdict_path(settings, "delays", 1, "run-9").parent.mkdir(parents=True)
    verdict_path(settings, "delays", 1, "run-9").write_text('{"equal": ["2013-01-01"]}')

    with pytest.raises(BrokenState) as refused:
        read_verdict(settings, "delays", 1, "run-9")

    assert refused.value.code == "VERDICT_MISSING"
