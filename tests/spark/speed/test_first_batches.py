"""What a new stream reads first: the commits of a short log, else the state that they make; either way the same."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from anabranch.compute.speed import view_stream
from anabranch.compute.speed.view_stream import SpeedQuery, catch_up
from anabranch.core.settings import Settings, load_settings
from anabranch.lake import Commit, commit_history, open_table
from anabranch.lake.layout import VersionRef
from anabranch.lake.log.delta_tables import delta_table
from anabranch.views.model.handle import ViewHandle
from support.landed_sample import FLIGHTS, Event, Landing, sample_views

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
DELAYS = sample_views().get("departure_delays")


def departed(minute: int, origin: str = "JFK") -> Event:
    data = {"origin": origin, "dest": "ATL", "carrier": "AA", "flight": minute, "dep_delay": minute, "tailnum": "N1"}
    return Event("flight.departed", datetime(2013, 1, 1, 5, minute, tzinfo=UTC), f"{origin}{minute}", data)


def three_epochs(settings: Settings) -> Landing:
    found = Landing(settings)
    found.land([departed(0)], [departed(10), departed(11, "EWR")], [departed(20)])
    return found


@pytest.fixture
def landing(settings: Settings) -> Landing:
    return three_epochs(settings)


@pytest.fixture
def other(settings: Settings) -> Settings:
    """Another platform, for the same events."""
    return load_settings(home=settings.home / "other")


def view(settings: Settings) -> ViewHandle:
    return ViewHandle(settings, DELAYS, FLIGHTS)


def rows(settings: Settings) -> list[dict[str, Any]]:
    table = open_table(VersionRef(settings, DELAYS.name, 1).speed_table)
    assert table is not None
    return sorted(table.to_pyarrow_table().to_pylist(), key=lambda row: str(row["origin"]))


def newest(settings: Settings) -> Commit:
    return next(iter(commit_history(VersionRef(settings, DELAYS.name, 1).speed_table)))


def jobs(spark: SparkSession, query: SpeedQuery) -> int:
    return len(spark.sparkContext.statusTracker().getJobIdsForGroup(query.run))


def test_commits_give_the_same_rows_and_cut_as_the_state_in_fewer_jobs(
    spark: SparkSession, settings: Settings, landing: Landing, other: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_commits = catch_up(spark, view(settings))
    of_commits = (rows(settings), newest(settings).note.cut, newest(settings).note.extra)

    three_epochs(other)
    monkeypatch.setattr(view_stream, "_SHORT_LOG", 0)
    by_state = catch_up(spark, view(other))
    assert (rows(other), newest(other).note.cut, newest(other).note.extra) == of_commits
    assert of_commits[1] == landing.cut
    assert jobs(spark, by_commits) < jobs(spark, by_state)


@pytest.mark.usefixtures("landing")
def test_files_that_were_rewritten_are_read_once(spark: SparkSession, settings: Settings, other: Settings) -> None:
    catch_up(spark, view(settings))
    expected = rows(settings)

    assert delta_table(three_epochs(other).uri).optimize.compact()["numFilesRemoved"] == 3
    catch_up(spark, view(other))
    assert rows(other) == expected


def test_a_stream_that_began_by_commits_goes_on_when_they_are_rewritten(
    spark: SparkSession, settings: Settings, landing: Landing
) -> None:
    catch_up(spark, view(settings))
    assert delta_table(landing.uri).optimize.compact()["numFilesRemoved"] == 3
    landing.table.update_incremental()
    landing.land([departed(30)])
    catch_up(spark, view(settings))  # Spark asks for the first batch once more, which is in the files' state by now
    assert newest(settings).note.cut == landing.cut
    assert {row["origin"]: row["flights"] for row in rows(settings)} == {"EWR": 1, "JFK": 4}
