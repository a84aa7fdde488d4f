"""Maintenance beside real streams: no row twice, no batch too many, and the same rows from scratch or by a replay."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from anabranch.change.replay._feed import LandingFeed
from anabranch.change.replay.rate_limit import Pace
from anabranch.change.replay.request import ReplayRequest
from anabranch.change.replay.runner import replay
from anabranch.change.replay.state import PUBLISHED
from anabranch.compute.speed import _large_merge
from anabranch.compute.speed.view_stream import catch_up, start
from anabranch.core.settings import Settings
from anabranch.lake import commit_history, latest_commit, open_table
from anabranch.lake.file_commits import commit_rewrite
from anabranch.lake.layout import VersionRef
from anabranch.operate.doctor import Context, examine
from anabranch.operate.maintenance import maintain
from anabranch.operate.maintenance._report import DAY, Policy, Report
from anabranch.views import Registry
from anabranch.views.model.handle import ViewHandle
from anabranch.views.selection.inputs import rows_at
from deltalake import DeltaTable
from support.landed_sample import DECLARED, FLIGHTS, Event, Landing, sample_views

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DELAYS = sample_views().get("departure_delays")
NUMBERS = iter(range(10**6))


def departed(minute: int) -> Event:
    """A row of its own in the view, so that a merge writes a file of its own."""
    data = {"origin": f"A{minute}", "dest": "ATL", "carrier": "AA", "flight": 1, "dep_delay": minute, "tailnum": "N1"}
    at = datetime(2013, 1, 1, 5 + minute // 60, minute % 60, tzinfo=UTC)
    return Event("flight.departed", at, f"e{next(NUMBERS)}", data)


@pytest.fixture
def landing(settings: Settings) -> Landing:
    found = Landing(settings)
    found.land(*([departed(minute)] for minute in range(8)))
    return found


def run(settings: Settings, days: float = 0.0) -> Report:
    done = maintain(settings, Policy(now=time.time() + days * DAY))
    assert not done.failed, str(done)
    return done


def rows_of(settings: Settings) -> list[dict[str, Any]]:
    """Without the marks: from scratch every row is of the newest epoch."""
    table = open_table(VersionRef(settings, DELAYS.name, 1).speed_table)
    assert table is not None
    rows = table.to_pyarrow_table(columns=[c.name for c in table.schema().fields if not c.name.startswith("_")])
    return sorted(rows.to_pylist(), key=lambda row: [str(row[k]) for k in DELAYS.key])


def expected(spark: SparkSession, settings: Settings, landing: Landing) -> list[dict[str, Any]]:
    """The function over all on-time events of landing, as a batch."""
    rows = rows_at(spark, ViewHandle(settings, DELAYS, FLIGHTS), landing.cut, None, late=False).toArrow().to_pylist()
    return sorted(rows, key=lambda row: [str(row[k]) for k in DELAYS.key])


def counted(rows: list[dict[str, Any]]) -> int:
    return sum(int(row["flights"]) for row in rows)


def files(uri: str) -> int:
    return len(DeltaTable(uri).file_uris())


@pytest.mark.parametrize("days", [pytest.param(0, marks=pytest.mark.sweep), 31])
def test_a_stream_passes_over_it_and_one_from_scratch_has_the_same_rows(
    spark: SparkSession, settings: Settings, landing: Landing, days: float
) -> None:
    ref = VersionRef(settings, DELAYS.name, 1)
    delays = ViewHandle(settings, DELAYS, FLIGHTS)
    catch_up(spark, delays)
    assert files(landing.uri) == 8
    run(settings)
    run(settings, days)
    assert files(landing.uri) == 1
    catch_up(spark, delays)  # nothing has landed: whatever it takes in, the rows are the same
    assert counted(rows_of(settings)) == 8
    landing.table.update_incremental()
    landing.land([departed(30)], [departed(31)])
    run(settings)
    catch_up(spark, delays)
    live = rows_of(settings)
    assert counted(live) == 10
    found = latest_commit(ref.speed_table)
    assert found is not None
    assert found.note.cut == landing.cut
    shutil.rmtree(ref.speed_checkpoint)
    shutil.rmtree(ref.speed_table)
    catch_up(spark, delays)
    assert rows_of(settings) == live


def test_a_stream_that_stood_still_goes_on_from_epochs_that_were_merged_since(
    spark: SparkSession, settings: Settings, landing: Landing
) -> None:
    delays = ViewHandle(settings, DELAYS, FLIGHTS)
    catch_up(spark, delays)
    landing.land(*([departed(minute)] for minute in range(40, 48)))
    run(settings)
    run(settings, 29)
    assert files(landing.uri) <= 2
    catch_up(spark, delays)
    batches = [c.note.batch.partition(":")[2] for c in commit_history(VersionRef(settings, DELAYS.name, 1).speed_table)]
    assert (counted(rows_of(settings)), batches) == (16, ["1", "0", ""])


def said(settings: Settings) -> set[str]:
    """The codes of what the doctor finds, as if staged files were hours old."""
    platform = Context(settings, DECLARED, Registry((DELAYS,), DECLARED), now=time.time() + 7_200)
    return {finding.code for finding in examine(platform, pause=0.5).findings}


@pytest.fixture
def live(spark: SparkSession, settings: Settings, landing: Landing) -> Iterator[Any]:
    query = start(spark, ViewHandle(settings, DELAYS, FLIGHTS))
    yield query
    query.stop()


def wait(query: Any, landing: Landing) -> None:
    end = time.monotonic() + 60
    while not query.sink.cut.covers(landing.cut):
        assert query.isActive, str(query.failure)
        assert time.monotonic() < end, f"it is at {query.sink.cut}"
        time.sleep(0.05)


def test_a_live_stream_never_stops_while_it_is_maintained_all_the_time(
    spark: SparkSession, settings: Settings, landing: Landing, live: Any
) -> None:
    wait(live, landing)
    stop, runs, codes = threading.Event(), list[Report](), set[str]()
    known = said(settings)  # of a landing made by hand

    def maintained() -> None:
        while not stop.is_set():
            runs.append(maintain(settings, Policy(few=2)))
            codes.update(said(settings))

    thread = threading.Thread(target=maintained)
    thread.start()
    try:
        for minute in range(50, 75):
            landing.land([departed(minute)])
            time.sleep(0.1)
        wait(live, landing)
    finally:
        stop.set()
        thread.join()
    assert live.isActive
    assert not any(done.failed for done in runs)
    merged = {deed.where for done in runs for deed in done.actions}
    assert merged == {"landing of flights", "departure_delays v1, speed half"}
    assert codes <= known
    assert counted(rows_of(settings)) == 33
    assert rows_of(settings) == expected(spark, settings, landing)


def test_a_compaction_that_is_quicker_than_a_large_merge_makes_it_read_again(
    spark: SparkSession, settings: Settings, landing: Landing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of micro-batches that the driver should not hold: the files that the merge read are gone by then."""
    for minute in (20, 21, 22):
        catch_up(spark, ViewHandle(settings, DELAYS, FLIGHTS))
        landing.land([departed(minute)])
    uri, versions = VersionRef(settings, DELAYS.name, 1).speed_table, list[int]()

    def late(table: DeltaTable, *given: Any) -> int:
        if not versions:
            versions.append(table.version())
            maintain(settings, Policy(few=2))
            versions.append(DeltaTable(uri).version())
        return commit_rewrite(table, *given)

    monkeypatch.setattr(_large_merge, "commit_rewrite", late)
    catch_up(spark, ViewHandle(settings.model_copy(update={"small_commit_rows": 0}), DELAYS, FLIGHTS))
    first, compacted = versions
    assert (compacted, DeltaTable(uri).version()) == (first + 1, first + 2)
    assert counted(rows_of(settings)) == 11


def asked(settings: Settings) -> ReplayRequest:
    return ReplayRequest(ViewHandle(settings, DELAYS, FLIGHTS), "again", pace=Pace(1.0))


@pytest.mark.sweep
def test_a_replay_over_merged_epochs_is_given_them_one_by_one(
    spark: SparkSession, settings: Settings, landing: Landing
) -> None:
    catch_up(spark, ViewHandle(settings, DELAYS, FLIGHTS))
    live = rows_of(settings)
    run(settings)
    run(settings, 29)
    ended = replay(spark, asked(settings))
    assert (ended.phase, ended.total) == (PUBLISHED, 8), ended.said
    assert (rows_of(settings), ended.mended) == (live, 0)


@pytest.mark.sweep
def test_a_replay_from_beyond_the_horizon_gives_the_same_rows_at_once(
    spark: SparkSession, settings: Settings, landing: Landing
) -> None:
    catch_up(spark, ViewHandle(settings, DELAYS, FLIGHTS))
    live = rows_of(settings)
    run(settings)
    run(settings, 31)
    ended = replay(spark, asked(settings))
    assert (ended.phase, ended.mended) == (PUBLISHED, 0), ended.said
    assert rows_of(settings) == live


def test_a_replay_under_way_is_not_disturbed(
    spark: SparkSession, settings: Settings, landing: Landing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Maintained between its slices, and a year later."""
    catch_up(spark, ViewHandle(settings, DELAYS, FLIGHTS))
    live, release_next = rows_of(settings), LandingFeed.release_next
    monkeypatch.setattr("anabranch.change.replay._feed._FIRST_RECORDS", 2)
    monkeypatch.setattr("anabranch.change.replay._feed.next_size", lambda *_: 2)
    given = list[Any]()

    def maintained(slices: Any, *limit: Any) -> Any:
        run(settings, 0 if given else 365)
        run(settings, 365)
        given.append(release_next(slices, *limit))
        return given[-1]

    monkeypatch.setattr(LandingFeed, "release_next", maintained)
    ended = replay(spark, asked(settings))
    assert (ended.phase, ended.mended) == (PUBLISHED, 0), ended.said
    assert len(given) >= 4
    assert rows_of(settings) == live


def test_a_cut_and_a_version_of_before_are_there(spark: SparkSession, settings: Settings, landing: Landing) -> None:
    """The cut for ever, the version for a reader of Spark as long as it is promised."""
    delays = ViewHandle(settings, DELAYS, FLIGHTS)
    old, uri = landing.cut, VersionRef(settings, DELAYS.name, 1).speed_table
    catch_up(spark, delays)
    version, before = DeltaTable(uri).version(), len(rows_of(settings))
    for minute in (57, 58, 59):
        landing.land([departed(minute)])
        catch_up(spark, delays)
    run(settings)
    run(settings, 6.9)
    assert spark.read.format("delta").option("versionAsOf", version).load(uri).count() == before
    run(settings, 31)
    assert rows_at(spark, delays, old, None, late=True).count() == before
    assert rows_of(settings) == expected(spark, settings, landing)


def test_a_stream_that_is_level_is_started_again_after_months_of_silence(
    spark: SparkSession, settings: Settings, landing: Landing
) -> None:
    """It repeats its last batch: the commits around that stay, however old they are."""
    delays = ViewHandle(settings, DELAYS, FLIGHTS)
    log = Path(landing.uri) / "_delta_log"

    def maintained(days: int) -> None:
        done = maintain(settings, Policy(now=time.time() + days * DAY, checkpoint_commits=1))
        assert not done.failed, str(done)

    catch_up(spark, delays)
    maintained(0)
    for minute in (50, 51, 52):
        landing.table.update_incremental()
        landing.land([departed(minute)])
        catch_up(spark, delays)
    for days in (0, 31, 62):
        maintained(days)
    assert not (log / "00000000000000000003.json").exists(), "old commits do go"
    catch_up(spark, delays)
    landing.table.update_incremental()
    landing.land([departed(53)])
    catch_up(spark, delays)
    assert counted(rows_of(settings)) == 12
