"""The disk of landing, and that of the broker, is full: what is seen, and that it goes on by itself with space."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from anabranch.core.errors import AnabranchError
from anabranch.core.settings import Settings
from anabranch.lake import latest_commit
from anabranch.lake.layout import landing_checkpoint, landing_table
from anabranch.operate.doctor._run_checks import Report
from anabranch.operate.runtime import lifecycle
from anabranch.operate.runtime.kafka_server import kafka_home
from support.full_disks import Disk
from support.parcels_topic import assert_sound, land, made_topic, parcel, rows_of, send
from support.processes import eventually
from support.sent_records import raw_producer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.system


@pytest.mark.parametrize(
    ("fault", "rows"),
    [
        ("full", "small"),
        *(
            pytest.param(fault, rows, marks=pytest.mark.sweep)
            for fault in ("full", "nearly full", "read_only")
            for rows in ("small", "large")
            if (fault, rows) != ("full", "small")
        ),
    ],
)
def test_landing_on_a_disk_that_takes_no_more(
    spark: SparkSession, broker: Settings, disk: Disk, fault: str, rows: str, diagnosis: Callable[..., Report]
) -> None:
    commit = {"small_commit_rows": 0} if rows == "large" else {}
    settings = broker.model_copy(update={"home": disk.path / "home", **commit})
    topic = made_topic(broker)
    send(settings, topic, map(parcel, range(10)))
    land(spark, settings, topic)
    before = latest_commit(landing_table(settings, topic.name))
    send(settings, topic, [parcel(n, data={"n": n, "text": os.urandom(500).hex()}) for n in range(10, 210)])
    left = 40_000 if fault == "nearly full" else 0
    broken = disk.read_only() if fault == "read_only" else disk.full(left)
    with broken, pytest.raises((AnabranchError, OSError)) as caught:
        land(spark, settings, topic)
    said = str(caught.value)
    assert "No space" in said or "Read-only" in said, said
    assert isinstance(caught.value, AnabranchError), said
    assert caught.value.next_step
    assert latest_commit(landing_table(settings, topic.name)) == before
    land(spark, settings, topic)
    assert_sound(settings, topic, 210)
    assert landing_checkpoint(settings, topic.name).exists()
    assert not diagnosis(settings, topic).findings


@pytest.mark.sweep
@pytest.mark.timeout(900)
def test_the_disk_of_the_broker(
    spark: SparkSession, own_settings: Callable[[str], Settings], disk: Disk, tmp_path: Path
) -> None:
    settings = own_settings("full-broker")
    kafka_home(settings).parent.mkdir(parents=True, exist_ok=True)
    kafka_home(settings).symlink_to(disk.path, target_is_directory=True)  # up asks for gigabytes where the rest is
    with lifecycle.running(settings, ["kafka"]):
        topic = made_topic(settings)
        own = settings.model_copy(update={"home": tmp_path / "home"})
        send(settings, topic, map(parcel, range(10)))
        land(spark, own, topic)
        receipts, refused = list[int](), list[object]()
        with disk.full():
            producer = raw_producer(settings, **{"message.timeout.ms": 8_000})
            for n in range(10, 400):
                value = parcel(n, data={"n": n, "text": os.urandom(2_000).hex()})
                producer.produce(
                    topic.name, value=value, partition=n % 2,
                    on_delivery=lambda error, message: refused.append(error) if error else receipts.append(1),
                )  # fmt: skip
            producer.flush(20)
            assert refused, "a full disk took everything"
        eventually(lambda: _answers(settings), 90)
        send(settings, topic, map(parcel, range(400, 410)))
        land(spark, own, topic)
        rows = rows_of(own, topic)
        assert len(rows) >= 20 + len(receipts)  # what has a receipt is there; what was refused may be
        assert_sound(own, topic, len(rows))


def _answers(settings: Settings) -> bool:
    from anabranch.ingest.kafka.admin import existing_topics

    part = next(part for part in lifecycle.status(settings) if part.name == "kafka")
    with contextlib.suppress(AnabranchError):
        return bool(part.state == "running" and existing_topics(settings))
    return False
