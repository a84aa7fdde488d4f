"""Landing against a real broker: each record exactly once, whatever happens to the checkpoint, the log or the table."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import confluent_kafka
import pytest
from anabranch.contracts import Contract, Topic
from anabranch.core.errors import BrokenState, Conflict
from anabranch.core.settings import Settings
from anabranch.ingest.kafka.admin import create_missing, end_offsets, existing_topics
from anabranch.ingest.landing import epochs
from anabranch.ingest.landing.audit.accepted_losses import accept_loss
from anabranch.ingest.landing.audit.quarantine import list_quarantined, release
from anabranch.ingest.landing.audit.verify import conflicts, verify
from anabranch.ingest.landing.epoch_pacing import run_first
from anabranch.ingest.landing.stream import start
from anabranch.lake import commit_history
from anabranch.lake.commits import append
from anabranch.lake.layout import landing_checkpoint, landing_table
from confluent_kafka.admin import AdminClient
from deltalake import DeltaTable
from support.sent_records import raw_producer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.system

LATENESS = timedelta(hours=1)
NOON = datetime(2020, 1, 1, 12, tzinfo=UTC)
Row = Mapping[str, Any]
Sent = tuple[int, bytes]


def contract(maximum: int = 1_000) -> Contract:
    n = {"type": "integer", "minimum": 0, "maximum": maximum}
    return Contract("parcel.seen", 1, {"type": "object", "required": ["n"], "properties": {"n": n}})


def topic_named(name: str, **more: Any) -> Topic:
    return Topic(name, (contract(more.pop("maximum", 1_000)),), partitions=2, allowed_lateness=LATENESS, **more)


def event(number: int | str, minutes: int = 0, n: int = 1, **more: Any) -> bytes:
    body = {
        "specversion": "1.0",
        "id": str(number),
        "source": "/test",
        "type": "parcel.seen",
        "subject": f"parcel-{number}",
        "time": (NOON + timedelta(minutes=minutes)).isoformat(),
        "data": {"n": n},
        **more,
    }
    return json.dumps(body, separators=(",", ":")).encode()


@pytest.fixture
def topic(broker: Settings) -> Topic:
    made = topic_named(f"landed_{secrets.token_hex(4)}")
    create_missing(broker, [made])
    return made


@pytest.fixture
def settings(broker: Settings, tmp_path: Path) -> Settings:
    return broker.model_copy(update={"home": tmp_path, "max_offsets_per_trigger": 10})


@pytest.fixture
def land(spark: SparkSession, settings: Settings) -> Callable[..., list[Row]]:
    """Lands what the log holds now and gives the whole table."""

    def run(topic: Topic, **changed: Any) -> list[Row]:
        here = settings.model_copy(update=changed)
        assert start(spark, here, topic, once=True).awaitTermination(240), "landing did not end"
        return rows_of(here, topic)

    return run


def send(settings: Settings, topic: Topic, records: Iterable[Sent]) -> None:
    producer = raw_producer(settings)
    for partition, value in records:
        producer.produce(topic.name, value=value, key=b"k", partition=partition)
    assert producer.flush(20) == 0


def rows_of(settings: Settings, topic: Topic) -> list[Row]:
    found = DeltaTable(landing_table(settings, topic.name)).to_pyarrow_table().to_pylist()
    return sorted(found, key=lambda row: (row["epoch"], row["partition"], row["offset"]))


def assert_once(settings: Settings, topic: Topic, rows: list[Row]) -> None:
    """Each record of the log is landed once, each (source, id) is valid once, each epoch is one commit."""
    proof = verify(settings, topic)
    assert proof.sound, proof.to_json()
    held = Counter((row["partition"], row["offset"]) for row in rows if row["released_from"] is None)
    ends = end_offsets(settings, topic.name)
    assert held == Counter({(p, o): 1 for p, end in ends.items() for o in range(end)})
    valid = Counter((row["source"], row["event_id"]) for row in rows if row["decision"] == "valid")
    assert set(valid.values()) <= {1}
    epochs = [c.note.cut.epoch(topic.name) for c in commit_history(landing_table(settings, topic.name))]
    assert epochs == list(range(proof.epoch, -1, -1))


def time_in(value: bytes) -> datetime:
    """The event's time, without reading the rest of it: Python's json gives up on one that is nested deeply."""
    return datetime.fromisoformat(value.split(b'"time":"')[1].split(b'"')[0].decode())


def late_by_hand(settings: Settings, topic: Topic, rows: list[Row]) -> set[tuple[int, int]]:
    """The late records, from the notes' offsets and the records' times alone: event_time < W(e) - L."""
    cuts = sorted(
        (c.note.cut.epoch(topic.name), c.note.cut.positions[topic.name].offsets)
        for c in commit_history(landing_table(settings, topic.name))
    )
    late, watermark = set(), None
    for (_, before), (_, until) in pairwise(cuts):
        times = {
            (row["partition"], row["offset"]): time_in(row["value"])
            for row in rows
            if row["decision"] == "valid" and before.get(row["partition"], 0) <= row["offset"] < until[row["partition"]]
        }
        late |= {place for place, at in times.items() if watermark is not None and at < watermark - LATENESS}
        watermark = max([*times.values(), *([watermark] if watermark else [])], default=None)
    return late


def places(rows: Iterable[Row], decision: str) -> set[tuple[int, int]]:
    return {(row["partition"], row["offset"]) for row in rows if row["decision"] == decision}


# What Spark reads and Python's json doesn't: two hundred records beside them must not stand still for one of these.
DEEP = event("deep", zz=1).replace(b'"zz":1', b'"zz":' + b"[" * 960 + b"]" * 960)
HALF = event("half").replace(b'"id":"half"', b'"id":"\\ud800"')


def test_whatever_happens_to_the_checkpoint_each_record_is_landed_once(
    settings: Settings, topic: Topic, land: Callable[..., list[Row]]
) -> None:
    checkpoint = landing_checkpoint(settings, topic.name)
    minutes = [0, 30, -90, 200, 100, 140, -300, 260, 10, 199, 400, 350, 341, 339, 0]
    first = [(n % 2, event(n, m)) for n, m in enumerate(minutes)]
    odd = [(0, event(0)), (0, event(1, 30, n=2)), (1, DEEP), (1, DEEP), (1, HALF), (1, HALF), (0, b"{}"), (1, b"\xff")]
    send(settings, topic, [*first, *odd])
    rows = land(topic)
    assert_once(settings, topic, rows)
    assert len(places(rows, "duplicate")) == 4
    assert len(places(rows, "quarantined")) == 2
    (conflict,) = conflicts(settings, topic)
    assert (conflict["event_id"], conflict["first_offset"]) == ("1", 0)
    late = {(row["partition"], row["offset"]) for row in rows if row["late"]}
    assert late == late_by_hand(settings, topic, rows)
    assert len(late) >= 3
    old = settings.home / "older"
    shutil.copytree(checkpoint, old)

    # The commit of the last micro-batch is in the table, but the query doesn't know: the batch is run again.
    last = max(int(f.name) for f in (checkpoint / "commits").glob("[0-9]*"))
    for name in (f"{last}", f".{last}.crc"):
        (checkpoint / "commits" / name).unlink()
    assert land(topic) == rows

    # Lost: old ids are known still, also beside two copies of a new id in one micro-batch; partition 1 is far ahead.
    shutil.rmtree(checkpoint)
    send(settings, topic, [(1, event(3, 200)), (1, event("new")), (0, event("new")), (1, DEEP)])
    send(settings, topic, [(1, event(f"more-{n}", n)) for n in range(24)])
    again = land(topic, max_offsets_per_trigger=7)
    assert again[: len(rows)] == rows
    assert_once(settings, topic, again)
    assert len(places(again, "duplicate")) == 4 + 3

    # Restored from an old copy: what it reads again is landed already, whatever it knows of it.
    shutil.rmtree(checkpoint)
    shutil.copytree(old, checkpoint)
    send(settings, topic, [(0, event("last")), (1, event("more-5", 5)), (0, event(2))])
    restored = land(topic, max_offsets_per_trigger=7)
    assert restored[: len(again)] == again
    assert_once(settings, topic, restored)
    assert len(places(restored, "duplicate")) == 4 + 3 + 2
    assert {(r["partition"], r["offset"]) for r in restored if r["late"]} == late_by_hand(settings, topic, restored)

    # The large path (files written by Spark) lands the same rows in the same epochs.
    apart = settings.home / "large"
    small = land(topic, home=settings.home / "small")
    assert land(topic, home=apart, small_commit_rows=0) == small
    turns_red(settings.model_copy(update={"home": apart}), topic)


def turns_red(settings: Settings, topic: Topic) -> None:
    """Verify finds a row that is gone, a row that is there twice, and files that are gone."""
    table = DeltaTable(landing_table(settings, topic.name))
    sound = table.version()
    assert verify(settings, topic).sound
    for damage in ("partition = 1 and offset = 3", "partition = 0 and offset = 0", "epoch = 2"):
        table.delete(damage)
        assert not verify(settings, topic).sound, damage
        table.restore(sound)
    assert verify(settings, topic).sound
    copy = table.to_pyarrow_table().slice(2, 1)
    from deltalake import write_deltalake

    write_deltalake(table, copy, mode="append")
    assert any("more than once" in w for p in verify(settings, topic).partitions for w in p.wrong)
    table.restore(sound)
    shutil.rmtree(next(Path(table.table_uri.removeprefix("file://")).glob("builds/epoch-1-*")))
    with pytest.raises(BrokenState) as caught:
        verify(settings, topic)
    assert caught.value.code == "FILES_MISSING"


def test_lost_offsets_are_named_accepted_by_a_person_and_shown(
    settings: Settings, topic: Topic, land: Callable[..., list[Row]]
) -> None:
    send(settings, topic, [(0, event(n)) for n in range(5)])
    land(topic)
    send(settings, topic, [(p, event(f"{p}-{n}")) for p in (0, 1) for n in range(4)])
    admin = AdminClient({"bootstrap.servers": settings.brokers})
    gone = [confluent_kafka.TopicPartition(topic.name, 0, 7), confluent_kafka.TopicPartition(topic.name, 1, 4)]
    for deleted in admin.delete_records(gone).values():
        deleted.result(20)
    before = DeltaTable(landing_table(settings, topic.name)).version()
    with pytest.raises(Conflict) as caught:
        land(topic)
    assert caught.value.code == "OFFSETS_LOST"
    assert caught.value.fields["lost"] == {0: (5, 7), 1: (0, 4)}
    assert DeltaTable(landing_table(settings, topic.name)).version() == before
    lost = accept_loss(settings, topic, "a test")
    assert [(x["partition"], x["from"], x["to"], x["why"]) for x in lost] == [(0, 5, 7, "a test"), (1, 0, 4, "a test")]
    proof = verify(settings, topic)
    assert (proof.sound, len(proof.accepted_losses)) == (True, 2), proof.to_json()
    send(settings, topic, [(1, event("after"))])
    rows = land(topic)
    assert {(r["partition"], r["offset"]) for r in rows} == {*((0, n) for n in (0, 1, 2, 3, 4, 7, 8)), (1, 4)}
    assert verify(settings, topic).sound

    admin.delete_topics([topic.name])[topic.name].result(20)
    deadline = time.monotonic() + 20
    while topic.name in existing_topics(settings) and time.monotonic() < deadline:
        time.sleep(0.1)
    create_missing(settings, [topic])
    send(settings, topic, [(0, event("of another log"))])
    with pytest.raises(Conflict) as caught:
        land(topic)
    assert caught.value.code == "LOG_REPLACED"
    assert rows_of(settings, topic) == rows


def test_a_release_is_an_epoch_of_its_own_and_its_ids_stay_known(
    spark: SparkSession, settings: Settings, topic: Topic, land: Callable[..., list[Row]]
) -> None:
    send(settings, topic, [(0, event("good")), (0, event("wide", n=5_000)), (0, event("wide", n=5_000)), (1, b"{")])
    rows = land(topic)
    assert len(places(rows, "quarantined")) == 3
    widened = topic_named(topic.name, maximum=10_000)
    released = release(spark, settings, widened, None, "the contract was too narrow")
    assert (released.epoch, released.released, released.duplicates, sum(released.still.values())) == (2, 1, 1, 1)
    again = release(spark, settings, widened, None, "again")
    assert (again.epoch, again.released) == (None, 0)
    assert [(q.partition, q.offset) for q in list_quarantined(settings, topic)] == [(1, 0)]
    newest = next(commit_history(landing_table(settings, topic.name)))
    assert newest.note.extra["release"] == {"why": "the contract was too narrow", "by": "", "records": 2}
    send(settings, topic, [(0, event("wide", n=5_000)), (0, event("next"))])
    rows = land(widened)
    assert_once(settings, topic, rows)
    found = {(r["offset"], r["decision"], r["released_from"]) for r in rows if r["partition"] == 0 and r["epoch"] > 1}
    assert {(o, d) for o, d, origin in found if origin is None} == {(3, "duplicate"), (4, "valid")}
    assert {(o, origin) for o, d, origin in found if origin is not None} == {(1, 1), (2, 1)}


def test_a_release_takes_one_kind_and_says_who_did_it(
    spark: SparkSession, settings: Settings, topic: Topic, land: Callable[..., list[Row]]
) -> None:
    send(settings, topic, [(0, event("wide", n=5_000)), (1, event("wider", n=7_000)), (1, b"{")])
    land(topic)
    kinds = {record.kind for record in list_quarantined(settings, topic)}
    assert "not_json" in kinds
    (contract,) = kinds - {"not_json"}
    widened = topic_named(topic.name, maximum=10_000)
    said = {"by": "anna", "why": "the contract was too narrow"}
    left = release(spark, settings, widened, None, **said, kind="not_json")
    assert (left.epoch, sum(left.still.values())) == (None, 1)
    done = release(spark, settings, widened, None, **said, kind=contract)
    assert (done.epoch, done.released, done.still) == (2, 2, {})
    assert [record.kind for record in list_quarantined(settings, topic)] == ["not_json"]
    newest = next(commit_history(landing_table(settings, topic.name)))
    assert newest.note.extra["release"] == {**said, "records": 2}


def test_a_partition_that_lags_behind_the_others_is_not_forgotten(
    settings: Settings, broker: Settings, land: Callable[..., list[Row]]
) -> None:
    """Partition 0 holds old records and partition 1 new ones, of which each micro-batch reads a few."""
    topic = topic_named(f"aged_{secrets.token_hex(4)}", duplicate_horizon=timedelta(seconds=1))
    create_missing(broker, [topic])
    send(settings, topic, [(0, event(n)) for n in range(12)])
    time.sleep(2.5)
    # Copies of old records, read in the same micro-batches as they are, or earlier, or later.
    send(settings, topic, [(1, event(n)) for n in (0, 11, 4, 100, 5, 101, 6, 7, 102, 9, 10, 8)])
    rows = land(topic, max_offsets_per_trigger=8)
    assert_once(settings, topic, rows)
    assert {r["event_id"] for r in rows if r["decision"] == "valid"} == {str(n) for n in (*range(12), 100, 101, 102)}
    assert len(places(rows, "duplicate")) == 9


def test_two_releases_at_once_land_a_record_once(
    spark: SparkSession,
    settings: Settings,
    topic: Topic,
    land: Callable[..., list[Row]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    send(settings, topic, [(0, event("good")), (0, event("wide", n=5_000)), (1, event("wider", n=6_000))])
    land(topic)
    widened = topic_named(topic.name, maximum=10_000)

    def overtaken(*arguments: Any) -> int:
        monkeypatch.setattr(epochs, "append", append)
        assert release(spark, settings, widened, None, "the quicker one").released == 2
        return append(*arguments)

    monkeypatch.setattr(epochs, "append", overtaken)
    slower = release(spark, settings, widened, None, "the slower one")
    assert (slower.epoch, slower.released) == (None, 0)
    assert verify(settings, widened).sound
    rows = [row for row in rows_of(settings, widened) if row["released_from"] is not None]
    assert len(rows) == 2


def test_a_producer_that_counts_microseconds_stops_nothing(settings: Settings, land: Callable[..., list[Row]]) -> None:
    """Kafka takes any time that a producer sets itself, here in the year 55840, if its topic lets it."""
    topic = topic_named(f"landed_{secrets.token_hex(4)}", owned=False)
    given = {"message.timestamp.type": "CreateTime", "message.timestamp.after.max.ms": str(2**63 - 1)}
    made = confluent_kafka.admin.NewTopic(topic.name, 2, 1, config=given)
    admin = AdminClient({"bootstrap.servers": settings.brokers})
    admin.create_topics([made])[topic.name].result(30)
    producer = raw_producer(settings)
    for number, moment in enumerate([int(NOON.timestamp() * 1_000), int(NOON.timestamp() * 1_000_000)]):
        producer.produce(topic.name, value=event(number), timestamp=moment, partition=number)
    assert producer.flush(20) == 0
    rows = land(topic)
    assert [(row["decision"], (row["reason"] or "").partition(":")[0]) for row in rows] == [
        ("valid", ""),
        ("quarantined", "append_time"),
    ]
    assert_once(settings, topic, rows)
    assert len(list_quarantined(settings, topic)) == 1


def test_landing_makes_fewer_epochs_beside_a_run(spark: SparkSession, settings: Settings, topic: Topic) -> None:
    """What a run does to the epochs is seen from their commits' times; each record is landed once all the same."""
    here = settings.model_copy(update={"landing_interval": "0 seconds", "landing_seconds_beside_runs": 3.0})
    send(here, topic, [(0, event("first"))])
    query = start(spark, here, topic)

    def seconds_an_epoch(name: str) -> float:
        begun, number = time.time(), 0
        while True:
            send(here, topic, [(number % 2, event(f"{name}{number}"))])
            number += 1
            time.sleep(0.1)
            times = [c.commit_time_ms / 1000 for c in commit_history(landing_table(here, topic.name))]
            seen = [each for each in times if each > begun]
            if len(seen) == 4:
                return (max(seen) - min(seen)) / 3
            assert time.time() < begun + 60

    try:
        query.processAllAvailable()
        with run_first(here):
            time.sleep(2)
            beside = seconds_an_epoch("beside")
        os.utime(here.locks / "run-first", (0, 0))
        time.sleep(2)
        alone = seconds_an_epoch("alone")
        query.processAllAvailable()
    finally:
        query.stop()
    # Each lasts three seconds at least; when it commits within them depends on what else the machine does.
    assert beside > 2.5
    assert alone < 0.8 * beside
    assert_once(here, topic, rows_of(here, topic))
