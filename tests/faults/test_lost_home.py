"""The disk of the home is lost: a backup that was made while landing went on brings it back, and the log the rest."""

from __future__ import annotations

import shutil
import threading
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from anabranch.compute.batch.publish import publications, publish
from anabranch.compute.batch.rebuild import rebuild
from anabranch.compute.speed.view_stream import catch_up
from anabranch.contracts import Topic
from anabranch.core.errors import TryAgain
from anabranch.core.settings import Settings
from anabranch.ingest.landing.audit.quarantine import list_quarantined
from anabranch.ingest.landing.stream import start
from anabranch.lake import open_table
from anabranch.lake.layout import VersionRef, landing_table
from anabranch.operate.backup import _hashed_files, create_backup, list_backups, restore_backup, verify_backups
from anabranch.views import View
from anabranch.views.model.handle import ViewHandle
from support.backed_up_home import furnished, kept
from support.full_disks import Disk
from support.parcels_topic import NOON, assert_sound, land, made_topic, parcel, rows_of, send
from support.processes import eventually
from support.sent_records import landed
from support.small_platform import departed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.system

DAYS = [date(2020, 1, 1), date(2020, 1, 2)]


def _hours(seen: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    counted = seen.groupBy(F.window("event_time", "1 hour").alias("w")).agg(
        F.count(F.lit(1)).alias("parcels"), F.sum("n").alias("weight")
    )
    return counted.select(F.col("w.start").alias("hour"), "parcels", "weight")


HOURS = View("parcel_hours", 1, ("parcel.seen",), ("hour",), _hours, "hour", fingerprint="hours-1")


@pytest.fixture
def settings(broker: Settings, tmp_path: Path) -> Settings:
    return broker.model_copy(update={"home": tmp_path / "home", "max_offsets_per_trigger": 20})


def at(number: int, minutes: int, n: int = 1) -> bytes:
    return parcel(number, time=(NOON + timedelta(minutes=minutes)).isoformat(), data={"n": n})


def view_rows(uri: str) -> list[dict[str, Any]]:
    """Without the columns of the platform."""
    table = open_table(uri)
    assert table is not None
    names = [field.name for field in table.schema().fields if not field.name.startswith("_")]
    return sorted(table.to_pyarrow_table(columns=names).to_pylist(), key=lambda row: str(row["hour"]))


def decided(settings: Settings, topic: Topic) -> list[tuple[Any, ...]]:
    columns = ("partition", "offset", "decision", "late", "event_id", "value", "released_from")
    return [tuple(row[name] for name in columns) for row in rows_of(settings, topic)]


def test_a_home_that_was_lost_is_restored_and_catches_up_from_the_log(
    spark: SparkSession, settings: Settings, tmp_path: Path
) -> None:
    ref = VersionRef(settings, HOURS.name, 1)
    topic, folder = made_topic(settings), tmp_path / "backups"

    def publish_days(run: str) -> None:
        build = rebuild(spark, ViewHandle(settings, HOURS, topic), DAYS, run)
        publish(ViewHandle(settings, HOURS, topic), build, DAYS)

    def level(sent: int) -> None:
        eventually(lambda: landed(settings, topic.name) >= sent)

    # On time, late (each by two hours, behind the first epoch), a copy, and one that can't be read.
    count = send(settings, topic, (at(n, 10 * n) for n in range(60)))
    land(spark, settings, topic)
    count += send(settings, topic, [*(at(1_000 + n, 0, n=5) for n in range(6)), at(3, 30), b"{", parcel(7, n=-1)])
    land(spark, settings, topic)
    catch_up(spark, ViewHandle(settings, HOURS, topic))
    publish_days("before")

    # Landing goes on while it is backed up, again and again.
    query, stop, made = start(spark, settings, topic), threading.Event(), list[str]()

    def back_up() -> None:
        while not stop.is_set():
            made.append(create_backup(settings, folder, keep=3).manifest.name)

    thread = threading.Thread(target=back_up)
    thread.start()
    for part in range(8):
        count += send(settings, topic, [at(2_000 + 20 * part + n, 700 + 20 * part + n) for n in range(20)])
        level(count)
    stop.set()
    thread.join()
    count += send(settings, topic, [*(at(3_000 + n, 900 + n) for n in range(50)), at(3, 30), b"}"])
    level(count)
    query.stop()
    catch_up(spark, ViewHandle(settings, HOURS, topic))
    publish_days("after")
    assert len(made) > 2
    before, late = decided(settings, topic), len(list_quarantined(settings, topic))
    speed, batch = view_rows(ref.speed_table), view_rows(ref.batch_table)
    assert sum(row["parcels"] for row in batch) == sum(row["parcels"] for row in speed) + 6

    shutil.rmtree(settings.home)
    verify_backups(folder)
    newest = list_backups(folder)[-1]
    done = restore_backup(settings, folder)
    assert done.manifest == newest
    assert landed(settings, topic.name) < count, "the log has more than the backup"
    assert done.manifest.published == {"parcel_hours v1": "2020-01-01..2020-01-02"}
    assert not Path(ref.speed_table).exists()
    assert publications(ref.batch_table) == {}

    land(spark, settings, topic)
    assert_sound(settings, topic, count)
    assert decided(settings, topic) == before
    assert len(list_quarantined(settings, topic)) == late
    catch_up(spark, ViewHandle(settings, HOURS, topic))
    publish_days("again")
    assert view_rows(ref.speed_table) == speed
    assert view_rows(ref.batch_table) == batch
    create_backup(settings, folder, keep=3)
    verify_backups(folder)
    assert open_table(landing_table(settings, topic.name)) is not None


@pytest.mark.parametrize("foreseen", [True, False])
def test_a_full_disk_of_backups_keeps_those_that_are_complete(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, foreseen: bool
) -> None:
    """Space is checked before anything is copied; others may fill the disk meanwhile."""
    if not foreseen:
        monkeypatch.setattr(_hashed_files, "_RESERVE", -(10**9))
    clinic, folder, there = furnished(tmp_path / "home"), disk.path / "backups", Settings(home=disk.path / "home")
    create_backup(clinic.settings, folder)
    for number in range(3):
        clinic.land([departed(300 + number)])
        with disk.full(left=4096 * number), pytest.raises(TryAgain) as full:
            create_backup(clinic.settings, folder)
        assert full.value.code == "DISK_FULL"
        verify_backups(folder)
        assert len(list_backups(folder)) == 1
    create_backup(clinic.settings, folder)
    with disk.full(left=40_960), pytest.raises(TryAgain) as full:
        restore_backup(there, folder)
    assert full.value.code == "DISK_FULL"
    restore_backup(there, folder)
    assert kept(there) == kept(clinic.settings)
