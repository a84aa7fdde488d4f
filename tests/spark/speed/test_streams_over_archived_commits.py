"""A stream goes on over a landing table whose old commits lie beside its log, however far it is behind (ADR 0029)."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from anabranch.compute.speed.view_stream import catch_up, start
from anabranch.core.settings import Settings
from anabranch.ingest.landing import log_trimming
from anabranch.ingest.landing.log_trimming import LogTrimmer
from anabranch.lake import latest_commit, open_table
from anabranch.lake.commits import configure
from anabranch.lake.layout import VersionRef
from anabranch.lake.log.archived_commits import LOG
from anabranch.views.model.handle import ViewHandle
from support.landed_sample import FLIGHTS, Event, Landing, sample_views

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
DELAYS = sample_views().get("departure_delays")
START = datetime(2013, 1, 1, 5, tzinfo=UTC)


def departed(number: int) -> Event:
    data = {"origin": "JFK", "dest": "ATL", "carrier": "AA", "flight": number, "dep_delay": 0, "tailnum": "N1"}
    return Event("flight.departed", START + timedelta(minutes=number), f"d{number}", data)


@pytest.fixture
def landing(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Landing:
    """Its commits are set aside at each fifth, and not at each hundredth."""
    monkeypatch.setattr(log_trimming, "CHECKPOINT_COMMITS", 5)
    found = Landing(settings)
    found.land([departed(0)])
    note = latest_commit(found.table)
    assert note is not None
    configure(found.table, {"delta.checkpointInterval": "5"}, note.note)
    return found


def land(landing: Landing, settings: Settings, first: int, count: int) -> None:
    """As landing does it: the log is looked at behind each commit."""
    length = LogTrimmer(settings, landing.table)
    for number in range(first, first + count):
        landing.land([departed(number)])
        landing.table.update_incremental()
        length.committed()


def begin(landing: Landing) -> int:
    return min(int(path.stem) for path in (Path(landing.uri) / LOG).glob("*.json") if path.stem.isdecimal())


def flights(settings: Settings) -> int:
    table = open_table(VersionRef(settings, DELAYS.name, 1).speed_table)
    assert table is not None
    return sum(table.to_pyarrow_table()["flights"].to_pylist())


def plans(settings: Settings) -> list[Path]:
    return list((VersionRef(settings, DELAYS.name, 1).speed_checkpoint / "offsets").glob("[0-9]*"))


def test_the_log_keeps_what_a_stream_has_not_read(spark: SparkSession, settings: Settings, landing: Landing) -> None:
    delays = ViewHandle(settings, DELAYS, FLIGHTS)
    catch_up(spark, delays)
    behind = landing.table.version()
    land(landing, settings, 1, 23)
    assert begin(landing) <= behind < landing.table.version() - 20
    for first in (24, 30, 36):
        catch_up(spark, delays)
        land(landing, settings, first, 6)
    # When it starts, Spark asks once more for the batch before.
    assert begin(landing) > behind
    catch_up(spark, delays)
    assert flights(settings) == 42


@pytest.mark.parametrize("killed", [False, True])
def test_a_stream_that_rested_for_days_goes_on_where_it_was(
    spark: SparkSession, settings: Settings, landing: Landing, killed: bool
) -> None:
    """Killed behind its first commit, too: its snapshot is then read again."""
    delays = ViewHandle(settings, DELAYS, FLIGHTS)
    catch_up(spark, delays)
    if killed:
        for name in ("0", ".0.crc"):
            (VersionRef(settings, DELAYS.name, 1).speed_checkpoint / "commits" / name).unlink()
    for plan in plans(settings):
        os.utime(plan, times=(time.time() - 2 * 86_400,) * 2)
    behind = landing.table.version()
    land(landing, settings, 1, 23)
    assert begin(landing) > behind
    catch_up(spark, delays)
    assert begin(landing) <= behind
    assert flights(settings) == 24


def test_a_running_stream_does_not_notice(spark: SparkSession, settings: Settings, landing: Landing) -> None:
    query = start(spark, ViewHandle(settings, DELAYS, FLIGHTS))
    try:
        for first in range(1, 31, 6):
            land(landing, settings, first, 6)
            query.processAllAvailable()
        assert query.failure is None
    finally:
        query.stop()
    assert begin(landing) > 15
    assert flights(settings) == 31


def test_a_table_that_nobody_may_touch_keeps_its_log(
    settings: Settings, landing: Landing, caplog: pytest.LogCaptureFixture
) -> None:
    (settings.checkpoints / "speed" / "torn" / "v1" / "offsets").mkdir(parents=True)
    (settings.checkpoints / "speed" / "torn" / "v1" / "offsets" / "0").write_text("")
    land(landing, settings, 1, 20)
    assert begin(landing) == 0
    assert "could not archive old commits" in caplog.text
