"""Landing's checkpoint deleted, old, torn or another's; its table moved or put back; the log made again or grown."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import confluent_kafka
import pytest
from anabranch.contracts import Topic
from anabranch.core.errors import BadInput, Conflict
from anabranch.core.settings import Settings
from anabranch.ingest.kafka.admin import create_missing, existing_topics
from anabranch.ingest.landing.audit.accepted_losses import accept_log
from anabranch.ingest.landing.service import RETRY_SECONDS, LandingStreams
from anabranch.ingest.landing.stream import start
from anabranch.lake.layout import landing_checkpoint, landing_table
from anabranch.lake.streams.writer_fencing import acquire
from confluent_kafka.admin import AdminClient, NewPartitions
from support.parcels_topic import assert_sound, land, made_topic, parcel, rows_of, send
from support.processes import eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.system


@pytest.fixture
def settings(broker: Settings, tmp_path: Path) -> Settings:
    return broker.model_copy(update={"home": tmp_path / "home", "max_offsets_per_trigger": 6})


@pytest.fixture
def topic(broker: Settings) -> Topic:
    return made_topic(broker)


@pytest.fixture
def admin(broker: Settings) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.brokers})


def aside(settings: Settings, topic: Topic) -> Path:
    checkpoint = landing_checkpoint(settings, topic.name)
    return checkpoint.with_name(f"{checkpoint.name}.aside")


def test_a_checkpoint_so_old_that_the_log_holds_its_offsets_no_more(
    spark: SparkSession, settings: Settings, topic: Topic, admin: AdminClient
) -> None:
    checkpoint, old = landing_checkpoint(settings, topic.name), settings.home / "a week ago"
    send(settings, topic, map(parcel, range(4)))
    land(spark, settings, topic)
    shutil.copytree(checkpoint, old)
    send(settings, topic, map(parcel, range(4, 20)))
    land(spark, settings, topic)
    gone = [confluent_kafka.TopicPartition(topic.name, p, 8) for p in (0, 1)]
    for deleted in admin.delete_records(gone).values():
        deleted.result(20)
    shutil.rmtree(checkpoint)
    shutil.copytree(old, checkpoint)
    send(settings, topic, map(parcel, range(20, 24)))
    land(spark, settings, topic)
    assert_sound(settings, topic, 24)
    assert aside(settings, topic).exists()


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("offsets", 0.0),
        *(
            pytest.param(name, kept, marks=pytest.mark.sweep)
            for name in ("offsets", "commits", "metadata", "sources")
            for kept in (0.0, 0.5)
            if (name, kept) != ("offsets", 0.0)
        ),
    ],
)
def test_a_torn_checkpoint_is_put_aside(
    spark: SparkSession, settings: Settings, topic: Topic, name: str, kept: float
) -> None:
    send(settings, topic, map(parcel, range(8)))
    land(spark, settings, topic)
    folder = landing_checkpoint(settings, topic.name) / name
    torn = folder if folder.is_file() else max(p for p in folder.rglob("[0-9]*") if p.is_file())
    torn.write_bytes(torn.read_bytes()[: int(torn.stat().st_size * kept)])
    torn.with_name(f".{torn.name}.crc").unlink(missing_ok=True)
    send(settings, topic, map(parcel, range(8, 12)))
    land(spark, settings, topic)
    assert_sound(settings, topic, 12)


@pytest.mark.sweep
def test_a_checkpoint_of_another_topic_is_put_aside(
    spark: SparkSession, settings: Settings, topic: Topic, broker: Settings
) -> None:
    other = made_topic(broker)
    for each in (topic, other):
        send(settings, each, map(parcel, range(8)))
        land(spark, settings, each)
    checkpoint = landing_checkpoint(settings, topic.name)
    shutil.rmtree(checkpoint)
    shutil.copytree(landing_checkpoint(settings, other.name), checkpoint)
    for each in (topic, other):
        send(settings, each, map(parcel, range(8, 12)))
        land(spark, settings, each)
        assert_sound(settings, each, 12)


def test_a_table_that_was_moved_away_or_put_back_is_landed_again_from_the_log(
    spark: SparkSession, settings: Settings, topic: Topic
) -> None:
    uri = Path(landing_table(settings, topic.name))
    send(settings, topic, map(parcel, range(8)))
    land(spark, settings, topic)
    shutil.copytree(uri, settings.home / "copy")
    send(settings, topic, map(parcel, range(8, 16)))
    land(spark, settings, topic)

    shutil.rmtree(uri)
    shutil.copytree(settings.home / "copy", uri)
    land(spark, settings, topic)
    assert_sound(settings, topic, 16)

    shutil.rmtree(uri)
    land(spark, settings, topic)
    assert_sound(settings, topic, 16)


def made_again(settings: Settings, topic: Topic, admin: AdminClient) -> None:
    admin.delete_topics([topic.name])[topic.name].result(20)
    eventually(lambda: topic.name not in existing_topics(settings), 20)
    create_missing(settings, [topic])


def test_a_topic_made_again_with_more_records_than_were_landed_is_not_taken_for_the_old_one(
    spark: SparkSession, settings: Settings, topic: Topic, admin: AdminClient
) -> None:
    send(settings, topic, map(parcel, range(4)))
    land(spark, settings, topic)
    before = rows_of(settings, topic)
    made_again(settings, topic, admin)
    send(settings, topic, [parcel(f"new-{n}") for n in range(12)])
    with pytest.raises(Conflict) as caught:
        land(spark, settings, topic)
    assert caught.value.code == "LOG_REPLACED"
    assert "deleted and created again" in caught.value.what
    assert rows_of(settings, topic) == before

    # Another cluster's copy, at the same offsets: a person says so.
    made_again(settings, topic, admin)
    send(settings, topic, map(parcel, range(6)))
    accept_log(settings, topic, "moved to a new cluster")
    with pytest.raises(BadInput, match="LOG_KNOWN"):
        accept_log(settings, topic, "twice")
    land(spark, settings, topic)
    assert_sound(settings, topic, 6)


def test_partitions_that_are_added_while_landing_runs_are_landed_from_their_beginning(
    spark: SparkSession, settings: Settings, topic: Topic, admin: AdminClient
) -> None:
    quick = settings.model_copy(update={"landing_interval": "0 seconds"})
    sent = send(settings, topic, map(parcel, range(8)))
    query = start(spark, quick, topic)
    try:
        eventually(lambda: len(rows_of(settings, topic)) == sent, 60)
        admin.create_partitions([NewPartitions(topic.name, 4)])[topic.name].result(20)
        eventually(lambda: existing_topics(settings)[topic.name] == 4)
        sent += send(settings, topic, map(parcel, range(8, 18)), partition=3)
        sent += send(settings, topic, map(parcel, range(18, 28)), partition=2)
        sent += send(settings, topic, map(parcel, range(28, 36)))
        eventually(lambda: query.failure or len(rows_of(settings, topic)) == sent, 60)
        assert query.failure is None
    finally:
        query.stop()
    assert_sound(settings, topic, sent)
    send(settings, topic, map(parcel, range(36, 40)), partition=3)
    land(spark, settings, topic)
    assert_sound(settings, topic, sent + 4)


@pytest.mark.sweep
def test_retention_that_overtakes_a_running_landing_stops_it_and_the_next_start_names_the_offsets(
    spark: SparkSession, settings: Settings, topic: Topic, admin: AdminClient
) -> None:
    send(settings, topic, map(parcel, range(8)))
    query = start(spark, settings.model_copy(update={"landing_interval": "20 seconds"}), topic)
    try:
        eventually(lambda: len(rows_of(settings, topic)) > 0, 60)
        send(settings, topic, map(parcel, range(8, 40)))
        gone = [confluent_kafka.TopicPartition(topic.name, p, 18) for p in (0, 1)]
        for deleted in admin.delete_records(gone).values():
            deleted.result(20)
        eventually(lambda: query.failure, 90)
    finally:
        query.stop()
    with pytest.raises(Conflict) as caught:
        land(spark, settings, topic)
    assert caught.value.code == "OFFSETS_LOST"


def test_a_topic_that_a_person_has_to_decide_about_does_not_keep_the_others_from_landing(
    spark: SparkSession, settings: Settings, topic: Topic, broker: Settings, admin: AdminClient
) -> None:
    other = made_topic(broker)
    for each in (topic, other):
        send(settings, each, map(parcel, range(4)))
        land(spark, settings, each)
    made_again(settings, topic, admin)
    send(settings, other, map(parcel, range(4, 8)))
    clock = [0.0]
    landing = LandingStreams([topic, other], lambda each: start(spark, settings, each), lambda: clock[0])
    try:
        landing.poll()
        assert [conflict.code for conflict in landing.halted.values()] == ["LOG_REPLACED"]
        assert list(landing.queries) == [other.name]
        eventually(lambda: len(rows_of(settings, other)) == 8, 60)
        shutil.rmtree(landing_table(settings, topic.name))  # the person has decided to begin anew
        landing.poll()
        assert landing.halted
        clock[0] += RETRY_SECONDS
        landing.poll()
        assert not landing.halted
        assert len(landing.queries) == 2
    finally:
        for query in landing.queries.values():
            query.stop()


def test_landing_whose_successor_has_begun_lands_no_more(spark: SparkSession, settings: Settings, topic: Topic) -> None:
    send(settings, topic, map(parcel, range(4)))
    query = start(spark, settings.model_copy(update={"landing_interval": "0 seconds"}), topic)
    try:
        eventually(lambda: len(rows_of(settings, topic)) == 4, 60)
        acquire(settings.checkpoints / "turns", f"landing/{topic.name}")
        send(settings, topic, map(parcel, range(4, 8)))
        failure = eventually(lambda: query.failure, 60)
    finally:
        query.stop()
    assert failure.code == "FENCED"
    assert len(rows_of(settings, topic)) == 4
    land(spark, settings, topic)
    assert_sound(settings, topic, 8)
