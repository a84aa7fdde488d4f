"""The whole judgement of a build: verdict, certificates, checks; each thing that is wrong refuses its day only."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from anabranch.certify._checks import Check, half_checks
from anabranch.certify._run_checks import CheckResult, Subject, run_checks
from anabranch.certify.certificates import newest_certificates
from anabranch.certify.data_docs import write_documents
from anabranch.certify.reconciliation import reconcile
from anabranch.certify.verdict import Verdict, read_verdict, verdict_path
from anabranch.compute.batch.manifest import Build
from anabranch.compute.batch.publish import publish
from anabranch.compute.batch.rebuild import rebuild
from anabranch.core.errors import BrokenState
from anabranch.core.settings import Settings
from anabranch.lake.cut import Cut
from anabranch.lake.layout import VersionRef
from anabranch.views.model.handle import ViewHandle
from support import departure_halves
from support.departure_halves import DAYS, DELAYS, EPOCHS, NEWEST, TOPIC

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def cut(spark: SparkSession, settings: Settings) -> Cut:
    found = departure_halves.land(settings, EPOCHS)
    departure_halves.stream(spark, settings, DELAYS, found)
    return found


@pytest.fixture
def build(spark: SparkSession, settings: Settings, cut: Cut) -> Build:
    return rebuild(spark, ViewHandle(settings, DELAYS, TOPIC), DAYS, "run-1")


def test_a_good_build_is_equal_everywhere_and_says_what_late_events_changed(
    spark: SparkSession, settings: Settings, build: Build
) -> None:
    ref = VersionRef(settings, "delays", 1)
    delays = ViewHandle(settings, DELAYS, TOPIC)
    verdict = reconcile(spark, delays, "run-1", build)

    assert (verdict.equal, dict(verdict.refused), verdict.report) == (tuple(DAYS), {}, "")
    assert [(c.late_events, c.rows) for c in verdict.late_changes] == [(1, 1), (0, 0), (0, 0)]
    assert read_verdict(ref, "run-1") == verdict
    assert set(newest_certificates(ref)) == set(DAYS)
    assert {result.table: result.rows for result in verdict.results} == {"landing": 6, "speed half": 4, "batch half": 4}
    assert not any(result.failed for result in verdict.results)
    assert publish(delays, build, verdict.equal) is not None


def test_a_wrong_row_refuses_its_day_in_words_and_the_others_pass(
    spark: SparkSession, settings: Settings, cut: Cut, build: Build
) -> None:
    rows = departure_halves.speed_rows_of(settings, DELAYS)
    wrong = [r | ({"flights": r["flights"] + 1} if r["partition_date"] == DAYS[1] else {}) for r in rows.to_pylist()]
    departure_halves.spoil(settings, DELAYS, cut, pa.Table.from_pylist(wrong, rows.schema))

    verdict = reconcile(spark, ViewHandle(settings, DELAYS, TOPIC), "run-1", build)

    assert verdict.equal == (DAYS[0], DAYS[2])
    assert "the halves differ at flights@2" in verdict.refused[DAYS[1]]
    assert "both_paths_equal on speed half failed for 1" in verdict.refused[DAYS[1]]
    assert "flights[0]@3" in verdict.report
    assert not newest_certificates(VersionRef(settings, "delays", 1))[DAYS[1]].equal


def test_a_verdict_stands_before_its_report_and_without_it(
    spark: SparkSession, settings: Settings, cut: Cut, build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = departure_halves.speed_rows_of(settings, DELAYS)
    wrong = [r | ({"flights": r["flights"] + 1} if r["partition_date"] == DAYS[1] else {}) for r in rows.to_pylist()]
    departure_halves.spoil(settings, DELAYS, cut, pa.Table.from_pylist(wrong, rows.schema))
    written = list[Verdict]()

    def out_of_memory(*_: object, **__: object) -> None:
        written.append(read_verdict(VersionRef(settings, "delays", 1), "run-1"))
        raise MemoryError("no memory left")

    monkeypatch.setattr("anabranch.certify.reconciliation.differences", out_of_memory)
    verdict = reconcile(spark, ViewHandle(settings, DELAYS, TOPIC), "run-1", build)

    assert [each.equal for each in (*written, verdict)] == [(DAYS[0], DAYS[2])] * 2
    assert "no memory left" in read_verdict(VersionRef(settings, "delays", 1), "run-1").report


def _rewrite(settings: Settings, build: Build, day: str, change: dict[str, object]) -> None:
    for file in build.files:
        if file.partition["partition_date"] == day:
            path = Path(VersionRef(settings, "delays", 1).batch_table) / file.path
            rows = pq.ParquetFile(path).read()
            (path.parent / f".{path.name}.crc").unlink()  # else Hadoop sees the change before we do
            pq.write_table(pa.Table.from_pylist([r | change for r in rows.to_pylist()], rows.schema), path)


def test_a_build_that_was_spoilt_is_refused_for_what_was_done_to_each_day(
    spark: SparkSession, settings: Settings, build: Build
) -> None:
    changes: list[dict[str, object]] = [{"flights": 77}, {"flights": -1}, {"origin": None}]
    for day, change in zip(DAYS, changes, strict=True):
        _rewrite(settings, build, str(day), change)

    verdict = reconcile(spark, ViewHandle(settings, DELAYS, TOPIC), "run-1", build)

    assert set(verdict.refused) == set(DAYS)
    assert "the build isn't the result of the view's function" in verdict.refused[DAYS[0]]
    assert "counts_not_negative on batch half failed for 1" in verdict.refused[DAYS[1]]
    assert "the halves differ" in verdict.refused[DAYS[2]]


def test_a_day_that_the_build_lacks_and_a_key_that_is_there_twice_are_refused(
    spark: SparkSession, settings: Settings, cut: Cut, build: Build
) -> None:
    rows = departure_halves.speed_rows_of(settings, DELAYS)
    twice = pa.Table.from_pylist([r for r in rows.to_pylist() if r["partition_date"] == DAYS[1]], rows.schema)
    departure_halves.spoil(settings, DELAYS, cut, pa.concat_tables([rows, twice]))
    lacking = tuple(file for file in build.files if file.partition["partition_date"] != str(DAYS[2]))

    verdict = reconcile(spark, ViewHandle(settings, DELAYS, TOPIC), "run-1", replace(build, files=lacking))

    assert set(verdict.refused) == {DAYS[1], DAYS[2]}
    assert "key_unique on speed half failed for 1" in verdict.refused[DAYS[1]]
    assert "complete on batch half failed for 1" in verdict.refused[DAYS[2]]


def test_landing_itself_is_checked(spark: SparkSession, settings: Settings, cut: Cut, build: Build) -> None:
    from anabranch import lake
    from anabranch.lake import commits
    from anabranch.lake.files import stage_arrow
    from anabranch.lake.layout import landing_table

    table = commits.open_table(landing_table(settings, TOPIC.name))
    assert table is not None
    rows = table.to_pyarrow_table()
    again = pa.Table.from_pylist([r for r in rows.to_pylist() if r["event_date"] == DAYS[1]], rows.schema)
    staged = stage_arrow(again, landing_table(settings, TOPIC.name), "again", "event_date")
    commits.append(table, staged, lake.CommitMetadata("landing/flights", "again", cut))

    verdict = reconcile(spark, ViewHandle(settings, DELAYS, TOPIC), "run-1", build)

    assert "offsets_unique on landing failed for 1" in verdict.refused[DAYS[1]]
    assert set(verdict.refused) == {DAYS[1]}


def test_a_kappa_view_is_judged_as_a_whole(spark: SparkSession, settings: Settings, cut: Cut) -> None:
    departure_halves.stream(spark, settings, NEWEST, cut)

    verdict = reconcile(spark, ViewHandle(settings, NEWEST, TOPIC), "run-2", None)

    assert (verdict.whole, verdict.equal, dict(verdict.refused)) == ("equal", (), {})


def test_landing_is_not_judged_by_bounds_that_its_topic_got_later(
    spark: SparkSession, settings: Settings, build: Build
) -> None:
    narrow = replace(TOPIC, earliest_year=2020, future_bound=timedelta(0))

    verdict = reconcile(spark, ViewHandle(settings, DELAYS, narrow), "run-1", build)

    assert dict(verdict.refused) == {}


def test_null_is_a_key_of_its_own(spark: SparkSession) -> None:
    rows = [(DAYS[0], None, "x"), (DAYS[0], "JFK", "x"), (DAYS[1], None, "x"), (DAYS[1], None, "y")]
    frame = spark.createDataFrame(rows, "partition_date date, origin string, more string")
    checks = half_checks(replace(DELAYS, key=("origin",), partition_by=None), [])
    assert {check.check: check.offending for check in run_checks(spark, [Subject("speed half", frame, checks)])} == {
        "key_unique": {DAYS[1]: 1}
    }


def test_a_check_that_breaks_counts_as_failed_and_the_others_are_asked(spark: SparkSession) -> None:
    broken = Check("broken", "It reads a column that isn't there.", query="SELECT x FROM {rows}")
    rows = spark.createDataFrame([(DAYS[0], 1), (DAYS[1], 2), (DAYS[1], 2)], "partition_date date, k int")
    checks = [broken, Check("small", "k is below 2.", "k >= 2"), Check("there", "k is not null.", "k IS NULL")]

    failed, small, there = run_checks(spark, [Subject("speed half", rows, checks)])

    assert (failed.concerns(DAYS[0]), failed.failed) == (0, True)
    assert "UNRESOLVED_COLUMN" in failed.error
    assert (small.offending, small.rows, small.error) == ({DAYS[1]: 2}, 3, "")
    assert (there.failed, there.concerns(DAYS[1])) == (False, None)
    assert spark.catalog.listTables() == []


def test_the_documents_show_every_check_and_where_it_failed(settings: Settings) -> None:
    results = (
        CheckResult("landing", "offsets_unique", "Every offset once.", 1_234),
        CheckResult("landing", "topic_not_null", "A <b>topic</b>.", 1_234, {DAYS[1]: 77}),
        CheckResult("speed half", "key_unique", "No key twice.", 5, {}, "it broke & burnt"),
    )
    verdict = Verdict("delays", 1, "run-1", "flights@2", 3, (), {}, (), results)

    page = write_documents(settings, verdict)

    pages = [file.read_text() for file in page.parent.rglob("*.html")]
    shown = html.unescape("".join(pages))
    for text in (
        "landing",
        "speed half",
        "offsets_unique",
        "Every offset once.",
        "77 of 1,234 (2013-01-02: 77)",
        "burnt",
    ):
        assert text in shown, text
    assert "<b>topic</b>" not in "".join(pages)
    loaded = re.findall(r'<script\b[^>]*|<(?:link|img)\b[^>]*"(?:https?:)?//[^>]*', "".join(pages))
    assert loaded == [], "it is read without a network"
    assert "speed half: 0 of 1 checks passed" in page.read_text()
    assert f"{verdict.created:%Y-%m-%d %H:%M:%S} UTC" in page.read_text()
    index = (settings.home / "data_docs" / "index.html").read_text()
    assert re.search(r'href="delays/v1/run-1/index.html">\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC: delays v1 run-1<', index)
    assert write_documents(settings, verdict) == page, "a repeat replaces it"


def test_a_run_without_a_verdict_may_not_be_published(settings: Settings) -> None:
    ref = VersionRef(settings, "delays", 1)
    verdict_path(ref, "run-9").parent.mkdir(parents=True)
    verdict_path(ref, "run-9").write_text('{"equal": ["2013-01-01"]}')

    with pytest.raises(BrokenState) as refused:
        read_verdict(ref, "run-9")

    assert refused.value.code == "VERDICT_MISSING"
