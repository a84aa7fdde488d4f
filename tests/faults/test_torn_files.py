"""A commit, a data file or a file of a checkpoint that a power cut has torn: found, named, mended from the source."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import anabranch
import pytest
from anabranch.compute.speed.view_stream import catch_up
from anabranch.core.errors import AnabranchError, BrokenState
from anabranch.core.settings import Settings
from anabranch.lake import latest_commit
from anabranch.lake.layout import VersionRef, landing_table
from anabranch.operate.doctor._run_checks import Report
from anabranch.operate.runtime.lag import lag
from anabranch.views.model.handle import ViewHandle
from support.landed_sample import FLIGHTS, Event, Landing, sample_views

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DELAYS = sample_views().get("departure_delays")
Diagnosis = Callable[..., Report]


def departed(at: str) -> Event:
    time = datetime.fromisoformat(f"2013-01-01 {at}").replace(tzinfo=UTC)
    data = {"origin": "JFK", "dest": "ATL", "carrier": "AA", "flight": 1, "dep_delay": 20, "tailnum": "N1"}
    return Event("flight.departed", time, at, data)


@pytest.fixture
def landing(spark: SparkSession, settings: Settings) -> Landing:
    """Two epochs, which the speed half covers in a commit each."""
    found = Landing(settings)
    for at in ("05:10", "06:10"):
        found.land([departed(at)])
        catch_up(spark, ViewHandle(settings, DELAYS, FLIGHTS))
    return found


def last_commit(uri: str) -> Path:
    return max((Path(uri) / "_delta_log").glob("*.json"))


def rows(settings: Settings) -> list[int]:
    read = anabranch.read(DELAYS.name, settings=settings)
    return sorted(row["flights"] for row in read.to_arrow().to_pylist())


def tear(path: Path, kept: float) -> None:
    """Cut a file off, and forget what Hadoop knows of it."""
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * kept)])
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def by_hand(settings: Settings) -> None:
    """What the error says: the half goes with its checkpoint, and its stream builds it again."""
    ref = VersionRef(settings, DELAYS.name, 1)
    shutil.rmtree(ref.speed_table)
    shutil.rmtree(ref.speed_checkpoint)


def test_a_torn_commit_is_named_by_whoever_meets_it_and_the_half_is_built_again(
    spark: SparkSession, settings: Settings, landing: Landing, diagnosis: Diagnosis
) -> None:
    delays = ViewHandle(settings, DELAYS, FLIGHTS)
    commit = last_commit(VersionRef(settings, DELAYS.name, 1).speed_table)
    tear(commit, 0.6)
    for use in (lambda: rows(settings), lambda: catch_up(spark, delays)):
        with pytest.raises(BrokenState) as caught:
            use()
        assert caught.value.code == "TABLE_UNREADABLE"
        assert f"{commit} is torn" in caught.value.what
        assert "rebuilds its speed half" in caught.value.next_step
    assert "TABLE_UNREADABLE" in lag(settings)["speed"]
    told = diagnosis(settings)
    assert told.broken
    assert commit.name in str(told)

    by_hand(settings)
    catch_up(spark, delays)
    assert rows(settings) == [1, 1]
    assert not diagnosis(settings).findings


def test_a_commit_that_is_empty_is_never_taken_for_one(
    spark: SparkSession, settings: Settings, landing: Landing, diagnosis: Diagnosis
) -> None:
    """What a power cut leaves of a file that was renamed before its bytes were on the disk."""
    delays = ViewHandle(settings, DELAYS, FLIGHTS)
    tear(last_commit(VersionRef(settings, DELAYS.name, 1).speed_table), 0)
    with pytest.raises(AnabranchError) as caught:
        rows(settings)
    assert caught.value.code == "TABLE_UNREADABLE"
    landing.land([departed("07:10")])
    with pytest.raises(AnabranchError):
        catch_up(spark, delays)
    assert diagnosis(settings).broken
    by_hand(settings)
    catch_up(spark, delays)
    assert rows(settings) == [1, 1, 1]
    assert not diagnosis(settings).findings


@pytest.mark.parametrize("kept", [0.0, pytest.param(0.5, marks=pytest.mark.sweep)])
def test_a_torn_data_file_is_named_by_whoever_reads_it(
    spark: SparkSession, settings: Settings, landing: Landing, diagnosis: Diagnosis, kept: float
) -> None:
    files = sorted(
        Path(VersionRef(settings, DELAYS.name, 1).speed_table).rglob("*.parquet"), key=lambda p: p.stat().st_mtime
    )
    tear(files[-1], kept)
    with pytest.raises(BrokenState) as caught:
        rows(settings)
    assert caught.value.code == "FILE_UNREADABLE"
    assert files[-1].name in str(caught.value)
    (found,) = diagnosis(settings).findings
    assert found.code == "FILE_UNREADABLE"
    by_hand(settings)
    catch_up(spark, ViewHandle(settings, DELAYS, FLIGHTS))
    assert rows(settings) == [1, 1]
    assert not diagnosis(settings).findings


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("offsets/1", 0.0),
        ("metadata", 0.5),
        *(
            pytest.param(name, kept, marks=pytest.mark.sweep)
            for name, kept in [("offsets/1", 0.5), ("metadata", 0.0), ("commits/1", 0.0), ("commits/1", 0.5)]
        ),
    ],
)
def test_a_torn_file_of_a_checkpoint_is_named_and_the_half_is_built_again(
    spark: SparkSession, settings: Settings, landing: Landing, diagnosis: Diagnosis, name: str, kept: float
) -> None:
    delays = ViewHandle(settings, DELAYS, FLIGHTS)
    ref = VersionRef(settings, DELAYS.name, 1)
    checkpoint = ref.speed_checkpoint
    tear(checkpoint / name, kept)
    before = latest_commit(ref.speed_table)
    landing.land([departed("07:10")])
    with pytest.raises(BrokenState) as caught:
        catch_up(spark, delays)
    assert caught.value.code == "CHECKPOINT_UNREADABLE"
    assert str(checkpoint / name) in caught.value.what
    assert latest_commit(ref.speed_table) == before
    shutil.rmtree(checkpoint)
    catch_up(spark, delays)
    assert rows(settings) == [1, 1, 1]
    assert not diagnosis(settings).findings


@pytest.mark.sweep
def test_torn_state_is_said_to_be_the_checkpoint_s(
    spark: SparkSession, settings: Settings, landing: Landing, diagnosis: Diagnosis
) -> None:
    checkpoint = VersionRef(settings, DELAYS.name, 1).speed_checkpoint
    for path in [p for p in (checkpoint / "state").rglob("*") if p.suffix in (".changelog", ".zip")]:
        tear(path, 0.4)
    assert spark._jvm is not None
    spark._jvm.org.apache.spark.sql.execution.streaming.state.StateStore.stop()
    landing.land([departed("07:10")])
    with pytest.raises(BrokenState) as caught:
        catch_up(spark, ViewHandle(settings, DELAYS, FLIGHTS))
    assert str(checkpoint) in caught.value.next_step
    shutil.rmtree(checkpoint)
    catch_up(spark, ViewHandle(settings, DELAYS, FLIGHTS))
    assert rows(settings) == [1, 1, 1]
    assert not diagnosis(settings).findings


@pytest.mark.sweep
def test_a_checkpoint_of_another_view_writes_nothing(
    spark: SparkSession, settings: Settings, landing: Landing, diagnosis: Diagnosis
) -> None:
    other = sample_views().get("aircraft_now")
    catch_up(spark, ViewHandle(settings, other, FLIGHTS))
    landing.land([departed("07:10")])
    catch_up(spark, ViewHandle(settings, other, FLIGHTS))
    checkpoint = VersionRef(settings, DELAYS.name, 1).speed_checkpoint
    shutil.rmtree(checkpoint)
    shutil.copytree(VersionRef(settings, other.name, other.version).speed_checkpoint, checkpoint)
    landing.land([departed("08:10")])
    with pytest.raises(BrokenState) as caught:
        catch_up(spark, ViewHandle(settings, DELAYS, FLIGHTS))
    assert str(checkpoint) in str(caught.value) or "checkpoint" in caught.value.next_step
    assert rows(settings) == [1, 1]
    shutil.rmtree(checkpoint)
    catch_up(spark, ViewHandle(settings, DELAYS, FLIGHTS))
    catch_up(spark, ViewHandle(settings, other, FLIGHTS))
    assert rows(settings) == [1, 1, 1, 1]
    assert not diagnosis(settings).findings


def test_a_torn_commit_of_landing_is_named(spark: SparkSession, settings: Settings, landing: Landing) -> None:
    commit = last_commit(landing_table(settings, "flights"))
    tear(commit, 0.5)
    with pytest.raises(BrokenState) as caught:
        catch_up(spark, ViewHandle(settings, DELAYS, FLIGHTS))
    assert caught.value.code == "TABLE_UNREADABLE"
    assert commit.name in caught.value.what
    assert "TABLE_UNREADABLE" in lag(settings)["landing"]
