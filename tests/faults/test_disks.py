"""A disk that is full or read-only: an error that says so, nothing half-written, and on it goes when there is space."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from anabranch.compute.batch.publish import publish
from anabranch.compute.batch.rebuild import rebuild
from anabranch.compute.speed.view_stream import catch_up
from anabranch.core.errors import BrokenState
from anabranch.core.settings import load_settings
from anabranch.lake import CommitMetadata, open_table
from anabranch.lake.commits import append, create, upsert
from anabranch.lake.cut import Cut
from anabranch.lake.files import stage_arrow
from anabranch.lake.layout import VersionRef
from anabranch.operate.doctor._run_checks import Report
from anabranch.views.model.handle import ViewHandle
from support.full_disks import Disk
from support.landed_sample import FLIGHTS, Event, Landing, sample_views

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DELAYS = sample_views().get("departure_delays")
SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string())])
FAULTS = ["full", "read_only"]
Diagnosis = Callable[..., Report]


def fault(disk: Disk, name: str) -> AbstractContextManager[None]:
    return disk.full() if name == "full" else disk.read_only()


def departed(at: str, day: int = 1) -> Event:
    time = datetime.fromisoformat(f"2013-01-{day:02} {at}").replace(tzinfo=UTC)
    data = {"origin": "JFK", "dest": "ATL", "carrier": "AA", "flight": 1, "dep_delay": 20, "tailnum": "N1"}
    return Event("flight.departed", time, f"{day} {at}", data)


@pytest.mark.unit
@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("how", ["append", "upsert"])
def test_a_commit_that_can_not_be_written_is_no_lost_race(disk: Disk, name: str, how: str) -> None:
    uri = str(disk.path / "table")
    rows = pa.table({"id": [1], "text": ["a"]}, schema=SCHEMA)
    table = create(uri, SCHEMA, [], CommitMetadata("test", "create", Cut()))
    staged = stage_arrow(rows, uri, "one", None)

    def write(batch: str) -> None:
        note = CommitMetadata("test", batch, Cut())
        append(table, staged, note) if how == "append" else upsert(table, rows, ["id"], note)

    with fault(disk, name), pytest.raises(BrokenState) as caught:
        write("1")
    assert caught.value.code == "COMMIT_UNWRITTEN"
    assert uri in caught.value.what
    assert not [path.name for path in (disk.path / "table/_delta_log").iterdir() if path.name.endswith(".tmp")]
    write("2")
    found = open_table(uri)
    assert found is not None
    assert (found.version(), found.to_pyarrow_table().to_pylist()) == (1, [{"id": 1, "text": "a"}])


@pytest.mark.spark
@pytest.mark.parametrize("name", ["full", pytest.param("read_only", marks=pytest.mark.sweep)])
def test_a_stream_goes_on_where_it_was_when_the_disk_can_be_written_again(
    spark: SparkSession, disk: Disk, name: str, diagnosis: Diagnosis
) -> None:
    settings = load_settings(home=disk.path / "home", shuffle_partitions=1)
    landing = Landing(settings)
    landing.land([departed("05:10")])
    catch_up(spark, ViewHandle(settings, DELAYS, FLIGHTS))
    landing.land([departed("05:20")], [departed("06:20")])
    table = open_table(VersionRef(settings, DELAYS.name, 1).speed_table)
    assert table is not None
    with fault(disk, name), pytest.raises(BrokenState) as caught:
        catch_up(spark, ViewHandle(settings, DELAYS, FLIGHTS))
    assert caught.value.next_step
    assert "No space" in str(caught.value) or "Read-only" in str(caught.value), caught.value
    again = open_table(table.table_uri)
    assert again is not None
    assert again.version() == table.version()
    catch_up(spark, ViewHandle(settings, DELAYS, FLIGHTS))
    found = open_table(table.table_uri)
    assert found is not None
    assert sorted(found.to_pyarrow_table()["flights"].to_pylist()) == [1, 2]
    assert not diagnosis(settings).findings


@pytest.mark.spark
@pytest.mark.parametrize("name", ["full", pytest.param("read_only", marks=pytest.mark.sweep)])
def test_a_rebuild_is_run_again_when_the_disk_can_be_written_again(
    spark: SparkSession, disk: Disk, name: str, diagnosis: Diagnosis
) -> None:
    settings = load_settings(home=disk.path / "home", shuffle_partitions=1)
    landing = Landing(settings)
    landing.land([departed("05:10")])
    day = departed("05:10").time.date()
    with fault(disk, name), pytest.raises(BrokenState) as caught:
        rebuild(spark, ViewHandle(settings, DELAYS, FLIGHTS), [day], "one")
    assert caught.value.code == "STAGING_FAILED"
    assert any(why in caught.value.what for why in ("No space", "Read-only", "Mkdirs failed")), caught.value
    build = rebuild(spark, ViewHandle(settings, DELAYS, FLIGHTS), [day], "one")
    with fault(disk, name), pytest.raises((BrokenState, OSError)):
        publish(ViewHandle(settings, DELAYS, FLIGHTS), build, [day])
    assert publish(ViewHandle(settings, DELAYS, FLIGHTS), build, [day]) == 1
