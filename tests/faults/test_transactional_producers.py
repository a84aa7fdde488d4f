"""Offsets without a record: commit markers and aborted records of transactions, and what compaction has taken."""

from __future__ import annotations

import secrets
import time
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import confluent_kafka
import pytest
from anabranch.change.replay._log_mirror import LogMirror, TopicSource
from anabranch.contracts import Topic
from anabranch.core.errors import BrokenState
from anabranch.core.settings import Settings
from anabranch.ingest.files import try_records
from anabranch.ingest.kafka.admin import existing_topics
from anabranch.ingest.kafka.look import newest
from anabranch.ingest.landing import status
from anabranch.ingest.landing._stream_watch import unlanded_position
from anabranch.ingest.landing.audit.quarantine import list_quarantined
from anabranch.ingest.landing.audit.verify import verify
from anabranch.ingest.landing.service import RETRY_SECONDS, LandingStreams
from anabranch.ingest.landing.stream import start
from anabranch.lake import commit_history
from anabranch.lake.layout import landing_table
from anabranch.operate.doctor._run_checks import Report
from anabranch.operate.runtime.lag import lag
from confluent_kafka.admin import AdminClient, NewTopic
from deltalake import DeltaTable
from support.parcels_topic import PARCEL, assert_sound, land, made_topic, parcel, rows_of, send
from support.processes import eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.system
Diagnosis = Callable[..., Report]


@pytest.fixture
def settings(broker: Settings, tmp_path: Path) -> Settings:
    return broker.model_copy(update={"home": tmp_path / "home", "max_offsets_per_trigger": 6})


@pytest.fixture
def topic(broker: Settings) -> Topic:
    return made_topic(broker)


class Transactions:
    """A transactional producer of one topic; records go to both partitions in turn."""

    def __init__(self, settings: Settings, topic: Topic) -> None:
        self.topic = topic
        options = {"bootstrap.servers": settings.brokers, "transactional.id": secrets.token_hex(4)}
        self.producer = confluent_kafka.Producer(options)
        self.producer.init_transactions(20)

    def begin(self, names: Sequence[str]) -> None:
        self.producer.begin_transaction()
        for number, name in enumerate(names):
            self.producer.produce(self.topic.name, value=parcel(name), partition=number % 2)
        assert self.producer.flush(20) == 0

    def send(self, names: Sequence[str], *, abort: bool = False) -> None:
        self.begin(names)
        (self.producer.abort_transaction if abort else self.producer.commit_transaction)(20)


def ten(name: str) -> list[str]:
    return [f"{name}-{n}" for n in range(10)]


def forget_old_notes(uri: str) -> None:
    """As maintenance does with commits that are past retention: only the newest one is kept, behind a checkpoint."""
    table = DeltaTable(uri)
    table.create_checkpoint()
    for commit in (Path(uri) / "_delta_log").glob("*.json"):
        if int(commit.stem) < table.version():
            commit.unlink()


@pytest.mark.parametrize("small_commit_rows", [0, 10_000])
def test_aborted_records_are_never_landed_and_what_holds_no_record_is_named(
    spark: SparkSession, settings: Settings, topic: Topic, diagnosis: Diagnosis, small_commit_rows: int
) -> None:
    settings = settings.model_copy(update={"small_commit_rows": small_commit_rows})
    sender = Transactions(settings, topic)
    sender.send(ten("first"))
    sender.send(ten("aborted"), abort=True)
    sender.send(ten("third"))
    land(spark, settings, topic)
    rows = rows_of(settings, topic)
    assert {row["event_id"] for row in rows} == {*ten("first"), *ten("third")}
    assert Counter(row["decision"] for row in rows) == {"valid": 20}
    assert_sound(settings, topic, 20)
    proof = verify(settings, topic)
    # Of each partition: a marker, five aborted records with theirs; and the last marker.
    assert proof.to_json()["holes"] == [
        {"partition": p, "from": first, "to": last} for p in (0, 1) for first, last in ((5, 12), (17, 18))
    ]
    assert [(p.first, p.landed_to, p.holes, p.lag) for p in proof.partitions] == [(0, 18, 8, 0)] * 2
    assert lag(settings)["landing"] == f"{topic.name}: 0 records"
    assert not diagnosis(settings, topic).findings

    # Started again it has nothing to do; what comes later lands behind the markers.
    land(spark, settings, topic)
    assert rows_of(settings, topic) == rows
    sender.send(ten("fourth"))
    send(settings, topic, [parcel("plain"), parcel("plain")])
    land(spark, settings, topic)
    assert_sound(settings, topic, 32)

    # A replay from the log reads the same ranges again.
    table = DeltaTable(landing_table(settings, topic.name))
    mirror = LogMirror(table.table_uri, settings.home / "mirror", TopicSource(spark, settings, topic))
    mirror.release(table.version())
    again = DeltaTable(mirror.uri).to_pyarrow_table().to_pylist()
    assert {(row["partition"], row["offset"], row["value"]) for row in again} == {
        (row["partition"], row["offset"], row["value"]) for row in rows_of(settings, topic)
    }
    assert (len(again), mirror.reread) == (32, 32 + 18)

    # The notes that named the holes are gone one day: their number is in the newest one, and the doctor knows it.
    forget_old_notes(landing_table(settings, topic.name))
    proof = verify(settings, topic)
    assert (proof.sound, [p.holes for p in proof.partitions]) == (True, [9, 9]), proof.to_json()
    assert not diagnosis(settings, topic).findings
    DeltaTable(landing_table(settings, topic.name)).delete("partition = 1 and offset = 3")
    assert not verify(settings, topic).sound
    assert "OFFSET_MISSING" in {finding.code for finding in diagnosis(settings, topic).findings}


def test_an_open_transaction_is_waited_for_and_an_epoch_may_hold_markers_only(
    spark: SparkSession, settings: Settings, topic: Topic
) -> None:
    sender, other = Transactions(settings, topic), Transactions(settings, topic)
    sender.begin(ten("open"))
    other.send(ten("behind"))
    land(spark, settings, topic)
    assert rows_of(settings, topic) == []
    proof = verify(settings, topic)
    assert [(p.landed_to, p.lag, p.undecided) for p in proof.partitions] == [(0, 0, 11)] * 2
    assert lag(settings)["landing"] == f"{topic.name}: 0 records, 22 behind an open transaction"
    assert unlanded_position(settings, topic) is None, "it would be taken for a stream that hangs"
    sender.producer.abort_transaction(20)
    land(spark, settings, topic)
    assert {row["event_id"] for row in rows_of(settings, topic)} == set(ten("behind"))
    assert_sound(settings, topic, 10)

    before = verify(settings, topic).epoch
    sender.send(["alone"], abort=True)
    land(spark, settings, topic)
    proof = verify(settings, topic)
    assert (proof.sound, proof.epoch, [p.lag for p in proof.partitions]) == (True, before + 1, [0, 0])
    latest = next(commit_history(landing_table(settings, topic.name)))
    assert (latest.note.extra["rows"], latest.note.extra["holes"]) == (0, {"0": [[12, 13]]})


def test_what_compaction_has_taken_is_proven_to_be_gone(
    spark: SparkSession, settings: Settings, broker: Settings, diagnosis: Diagnosis
) -> None:
    topic = Topic(f"compacted_{secrets.token_hex(4)}", (PARCEL,), partitions=1, allowed_lateness=timedelta(hours=1))
    config = {"cleanup.policy": "compact", "segment.ms": "200", "min.cleanable.dirty.ratio": "0.001"}
    made = NewTopic(topic.name, num_partitions=1, replication_factor=1, config=config)
    admin = AdminClient({"bootstrap.servers": broker.brokers})
    admin.create_topics([made])[topic.name].result(20)
    eventually(lambda: topic.name in existing_topics(settings))
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.brokers, "linger.ms": 0})

    def put(number: int) -> None:
        producer.produce(topic.name, key=str(number % 3).encode(), value=parcel(number))
        assert producer.flush(20) == 0

    def held() -> list[int]:
        consumer = confluent_kafka.Consumer({"bootstrap.servers": broker.brokers, "group.id": secrets.token_hex(4)})
        consumer.assign([confluent_kafka.TopicPartition(topic.name, 0, 0)])
        try:
            found = list[int]()
            while (message := consumer.poll(2)) is not None:
                found.append(int(message.offset() or 0))
            return found
        finally:
            consumer.close()

    for number in range(12):
        put(number)
    producer.produce(topic.name, key=b"2", value=None)
    assert producer.flush(20) == 0
    time.sleep(0.5)
    put(12)  # begins another segment: the first can be compacted
    left = eventually(lambda: len(found := held()) < 14 and found, 90)
    tried = try_records(spark, settings, topic, newest(settings, topic.name, 20))
    assert (tried.tombstones, tried.quarantined) == (1, 0)
    land(spark, settings, topic)
    rows = rows_of(settings, topic)
    assert [row["offset"] for row in rows] == left
    (deleted,) = (row for row in rows if row["decision"] == "tombstone")
    assert (deleted["offset"], deleted["key"], deleted["reason"], deleted["late"]) == (12, b"2", None, None)
    assert_sound(settings, topic, len(left))
    found = verify(settings, topic)
    (proof,) = found.partitions
    assert (proof.first, proof.holes, proof.lag, proof.tombstones) == (0, 14 - len(left), 0, 1)
    assert list_quarantined(settings, topic) == []
    assert not diagnosis(settings, topic).findings


def test_a_topic_that_fails_is_tried_again_and_named_while_the_others_are_landed(
    spark: SparkSession, settings: Settings, topic: Topic, broker: Settings
) -> None:
    quick = settings.model_copy(update={"landing_interval": "0 seconds"})
    other, clock = made_topic(broker), [0.0]
    landing = LandingStreams([topic, other], lambda each: start(spark, quick, each), lambda: clock[0])

    def looked(wish: Callable[[], Any]) -> Any:
        def look() -> Any:
            landing.poll()
            return wish()

        return eventually(look, 90)

    try:
        for each in (topic, other):
            send(settings, each, map(parcel, range(4)))
        looked(lambda: all(len(rows_of(settings, each)) == 4 for each in (topic, other)))
        # A file in the place of the folder that epochs are written into.
        builds = Path(landing_table(settings, topic.name)) / "builds"
        builds.rename(builds.with_name("away"))
        builds.touch()
        send(settings, topic, map(parcel, range(4, 8)))
        looked(lambda: topic.name in landing.halted)
        assert landing.halted[topic.name].code == "BATCH_FAILED"
        status.write(settings, landing.halted)
        assert f"{topic.name}: 4 records, halted (BATCH_FAILED)" in lag(settings)["landing"]
        failed = landing.halted[topic.name]
        send(settings, other, map(parcel, range(4, 8)))
        looked(lambda: len(rows_of(settings, other)) == 8)
        assert list(landing.queries) == [other.name]
        alone = LandingStreams([topic], landing.launch)
        with pytest.raises(BrokenState) as caught:  # nothing is kept from a new process, which may help
            eventually(lambda: alone.poll(), 60)
        assert (caught.value.code, list(alone.halted)) == ("BATCH_FAILED", [topic.name])

        clock[0] += RETRY_SECONDS
        looked(lambda: landing.halted[topic.name] is not failed)  # it was tried again, and failed again
        assert topic.name not in landing.queries
        builds.unlink()
        builds.with_name("away").rename(builds)
        clock[0] += RETRY_SECONDS
        looked(lambda: not landing.halted)
        looked(lambda: len(list(builds.parent.rglob("*.parquet"))) >= 2 and verify(settings, topic).sound)
        assert_sound(settings, topic, 8)
        assert_sound(settings, other, 8)
    finally:
        for query in landing.queries.values():
            query.stop()
