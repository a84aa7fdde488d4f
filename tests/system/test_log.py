"""The log on a real broker: topics, drift, receipts, refusals, and the producer's own file against the log itself."""

from __future__ import annotations

import json
import secrets
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import confluent_kafka
import polars as pl
import pytest
import typer
from anabranch.apps.cli import _topics_commands, produce_commands
from anabranch.contracts import Contract, Event, Topic, load_declarations
from anabranch.contracts.model.declarations import Declarations
from anabranch.core.errors import BadInput, Conflict, TryAgain
from anabranch.core.project_folder import project_root
from anabranch.core.settings import Settings
from anabranch.ingest.kafka import Producer
from anabranch.ingest.kafka.admin import begin_offsets, create_missing, drift, end_offsets, ensure_topics
from anabranch.operate.runtime._retention import retention_alarm
from anabranch.operate.runtime.kafka_server import unpacked
from anabranch_samples.faults import Faults, inject
from anabranch_samples.flights import flight_events
from anabranch_samples.publishing import Pace, publish
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions
from support import processes
from typer.testing import CliRunner

pytestmark = pytest.mark.system

CONTRACT = Contract("parcel.seen", 1, {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
SAMPLE_TOPICS = """
from pathlib import Path
from anabranch.contracts import Contract, Topic
FOLDER = Path({folder!r})
FLIGHTS = Topic("flights_{mark}", tuple(Contract.from_file(f) for f in sorted(FOLDER.glob("flight.*.json"))))
WEATHER = Topic("weather_{mark}", tuple(Contract.from_file(f) for f in FOLDER.glob("weather.*.json")), partitions=1)
"""


@pytest.fixture
def parcels() -> Declarations:
    """A topic of this test's own: other tests use the same broker."""
    topic = Topic(f"parcels_{secrets.token_hex(4)}", (CONTRACT,), partitions=3, max_message_bytes=100_000)
    return Declarations({topic.name: topic})


@pytest.fixture
def project(broker: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """The sample's contracts under topics of this test's own, for the code and for the command line."""
    contracts = tmp_path / "spark_jobs" / "contracts"
    contracts.mkdir(parents=True)
    folder = str(project_root() / "spark_jobs" / "contracts")
    (contracts / "sample.py").write_text(SAMPLE_TOPICS.format(folder=folder, mark=secrets.token_hex(4)))
    values = {"project": tmp_path, "home": tmp_path / "home", "bootstrap_servers": broker.brokers}
    for name, value in values.items():
        monkeypatch.setenv(f"ANABRANCH_{name.upper()}", str(value))
    return broker.model_copy(update=values)


def declared(settings: Settings) -> Declarations:
    return load_declarations(settings.project / "spark_jobs" / "contracts")


def only(declarations: Declarations) -> Topic:
    (topic,) = declarations.topics.values()
    return topic


def parcel(number: int, **more: Any) -> Event:
    values = {"id": str(number), "subject": f"parcel-{number}", "data": {"n": number}, **more}
    return Event(
        source="/test", type="parcel.seen", time=datetime(2013, 1, 1, tzinfo=UTC), dataschema=CONTRACT.uri, **values
    )


def everything(settings: Settings, *topics: str) -> dict[tuple[str, int, int], tuple[bytes | None, bytes | None, int]]:
    """All records of these topics, read by a plain consumer: (key, value, append time in ms) by coordinates."""
    ends = {(topic, p): end for topic in topics for p, end in end_offsets(settings, topic).items() if end}
    consumer = confluent_kafka.Consumer({"bootstrap.servers": settings.brokers, "group.id": "test"})
    consumer.assign([confluent_kafka.TopicPartition(topic, p, 0) for topic, p in ends])
    found: dict[tuple[str, int, int], tuple[bytes | None, bytes | None, int]] = {}
    while len(found) < sum(ends.values()):
        for message in consumer.consume(10_000, timeout=0.2):
            assert message.error() is None
            kind, milliseconds = message.timestamp()
            assert kind == confluent_kafka.TIMESTAMP_LOG_APPEND_TIME
            coordinates: Any = (message.topic(), message.partition(), message.offset())
            found[coordinates] = (message.key(), message.value(), milliseconds)
    consumer.close()
    return found


def change(settings: Settings, topic: str, setting: str, value: str) -> None:
    entry = ConfigEntry(setting, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": settings.brokers})
    admin.incremental_alter_configs([resource])[resource].result(10)


def test_topics_are_created_as_declared_and_once(broker: Settings, parcels: Declarations) -> None:
    topic = only(parcels)
    assert [(d.setting, d.missing) for d in drift(broker, [topic])] == [("topic", True)]
    assert ensure_topics(broker, parcels, parcels.topics) == (topic.name,)
    assert ensure_topics(broker, parcels, parcels.topics) == ()
    assert drift(broker, [topic]) == ()
    assert begin_offsets(broker, topic.name) == end_offsets(broker, topic.name) == {0: 0, 1: 0, 2: 0}


def test_drift_is_reported_and_refused(broker: Settings, parcels: Declarations) -> None:
    topic = only(parcels)
    create_missing(broker, [topic])
    change(broker, topic.name, "retention.ms", "60000")
    change(broker, topic.name, "message.timestamp.type", "CreateTime")
    admin = AdminClient({"bootstrap.servers": broker.brokers})
    admin.create_partitions([NewPartitions(topic.name, 5)])[topic.name].result(10)
    found = {d.setting: (d.declared, d.found) for d in drift(broker, [topic])}
    assert found == {
        "partitions": ("3", "5"),
        "retention.ms": (str(30 * 86_400_000), "60000"),
        "message.timestamp.type": ("LogAppendTime", "CreateTime"),
    }
    with pytest.raises(Conflict) as caught:
        ensure_topics(broker, parcels, parcels.topics)
    assert caught.value.code == "TOPIC_DRIFT"
    assert {d.setting for d in caught.value.fields["drift"]} == set(found)


def test_copies_that_the_broker_does_not_keep_are_drift(broker: Settings, parcels: Declarations) -> None:
    topic = only(parcels)
    create_missing(broker, [topic])
    wanted = replace(topic, replication=2, min_insync_replicas=2)
    found = {d.setting: (d.declared, d.found) for d in drift(broker, [wanted])}
    assert found == {"replication": ("2", "1"), "min.insync.replicas": ("2", "1")}
    assert drift(broker, [replace(topic, replication=1, min_insync_replicas=1)]) == ()


def test_what_retention_may_soon_take_is_an_alarm(broker: Settings, parcels: Declarations) -> None:
    topic = replace(only(parcels), retention=timedelta(days=2))
    create_missing(broker, [topic])
    change(broker, topic.name, "message.timestamp.type", "CreateTime")
    now = datetime.now(UTC)

    def alarm(*hours_old: int, partition: int = 0, landed: int = 0, limit: int = 12) -> str:
        for hours in hours_old:
            moment = int((now - timedelta(hours=hours)).timestamp() * 1000)
            producer.produce(topic.name, b"{}", partition=partition, timestamp=moment)
        producer.flush(10)
        ends = end_offsets(broker, topic.name)
        return retention_alarm(broker, topic.name, {0: landed}, ends, timedelta(hours=limit), now)

    producer = confluent_kafka.Producer({"bootstrap.servers": broker.brokers})
    assert alarm() == ""
    assert alarm(40, 1) == "ALARM: in 7 h 30 min retention may delete what has not landed"
    assert alarm(limit=6) == ""
    assert alarm(landed=1) == "", "what is old has landed"
    assert alarm(50, partition=1, landed=2) == "ALARM: at any time retention may delete what has not landed"
    change(broker, topic.name, "retention.ms", "-1")
    assert alarm() == ""


def test_a_receipt_says_where_the_event_is(broker: Settings, parcels: Declarations) -> None:
    topic = only(parcels).name
    create_missing(broker, parcels.topics.values())
    with Producer(broker, parcels) as producer:
        sent = [(event, producer.send(event)) for event in (parcel(n % 20, id=str(n)) for n in range(200))]
    found = everything(broker, topic)
    partitions: dict[str, set[int]] = {}
    for event, future in sent:
        receipt = future.result(timeout=0)
        assert receipt.offset is not None
        key, value, milliseconds = found.pop((receipt.topic, receipt.partition, receipt.offset))
        assert (key, value) == (event.subject.encode(), event.to_json())
        assert receipt.append_time == datetime.fromtimestamp(milliseconds / 1000, UTC)
        partitions.setdefault(event.subject, set()).add(receipt.partition)
    assert found == {}
    assert all(len(places) == 1 for places in partitions.values())
    assert abs(receipt.append_time - datetime.now(UTC)) < timedelta(minutes=1)
    # A broker that is killed leaves what it has unpacked.
    libraries = {m.path for process in processes.everything(broker) for m in process.memory_maps() if "lz4" in m.path}
    assert {Path(library).parent for library in libraries} == {unpacked(broker)}


def test_what_is_refused_is_not_sent_and_what_stands_beside_it_is(broker: Settings, parcels: Declarations) -> None:
    topic = only(parcels).name
    create_missing(broker, parcels.topics.values())
    bad = [
        (parcel(1, data={"n": "one"}), "data.n"),
        (parcel(1, data={}), "data.n"),
        (parcel(1, data={"n": 1, "x": float("nan")}), "event"),
        (parcel(1, data={"n": 1, "x": "y" * 100_000}), "event"),
        (parcel(1, subject=""), "subject"),
        (parcel(1, subject="\ud800"), "event"),
    ]
    with Producer(broker, parcels) as producer:
        for event, field in bad:
            producer.send(parcel(2))
            with pytest.raises(BadInput) as caught:
                producer.send(event)
            assert (caught.value.code, caught.value.fields["field"]) == ("EVENT_REFUSED", field)
    assert [value for _, value, _ in everything(broker, topic).values()] == [parcel(2).to_json()] * len(bad)


def test_a_topic_that_is_not_there_is_not_made_by_sending(broker: Settings, parcels: Declarations) -> None:
    with Producer(broker, parcels) as producer, pytest.raises(BadInput) as caught:
        producer.send(parcel(1))
    assert caught.value.code == "TOPIC_MISSING"
    with pytest.raises(BadInput) as caught:
        end_offsets(broker, only(parcels).name)
    assert caught.value.code == "TOPIC_MISSING"


def test_a_delivery_that_fails_is_an_error_of_the_future_and_of_the_flush(
    broker: Settings, parcels: Declarations
) -> None:
    topic = only(parcels).name
    create_missing(broker, parcels.topics.values())
    impatient = broker.model_copy(update={"kafka_options": {"topic.metadata.propagation.max.ms": "100"}})
    with Producer(impatient, parcels) as producer:
        admin = AdminClient({"bootstrap.servers": broker.brokers})
        admin.delete_topics([topic])[topic].result(10)
        future = producer.send(parcel(1))
        with pytest.raises(TryAgain) as caught:
            producer.flush()
    assert (caught.value.code, caught.value.fields["count"]) == ("DELIVERY_FAILED", 1)
    assert isinstance(future.exception(timeout=0), TryAgain)


def in_file(file: Path) -> dict[tuple[str, int, int], tuple[bytes | None, bytes | None, int]]:
    rows = pl.read_parquet(file).with_columns(pl.col("append_time").dt.epoch("ms"))
    return {
        (row["topic"], row["partition"], row["offset"]): (
            None if row["key"] is None else row["key"].encode(),
            row["value"],
            row["append_time"],
        )
        for row in rows.iter_rows(named=True)
    }


def test_the_producers_file_is_what_the_log_holds(project: Settings) -> None:
    app = typer.Typer()
    produce_commands.register(app)
    _topics_commands.register(app)
    command = ["produce", "flights", "--days", "2", "--faults", "--malformed", "0.01", "--json"]
    answer = CliRunner().invoke(app, command, catch_exceptions=False)
    summary = json.loads(answer.stdout)
    file = Path(summary["file"])
    assert file.parent == project.home / "produced"
    assert in_file(file) == everything(project, *declared(project).topics)

    rows = pl.read_parquet(file)
    assert summary["total"] == rows.height == sum(row["records"] for row in summary["records"])
    assert summary["faults"] == Counter(rows["fault"].drop_nulls())
    assert summary["faults"]["malformed"] > 10
    assert rows.filter(fault="malformed")["event_type"].null_count() == summary["faults"]["malformed"]
    for partition in rows.partition_by("topic", "partition"):
        assert sorted(partition["offset"]) == list(range(partition.height))

    drifted = CliRunner().invoke(app, ["topics", "drift", "--json"])
    assert (drifted.exit_code, json.loads(drifted.stdout)) == (0, [])
    change(project, next(iter(declared(project).topics)), "retention.ms", "60000")
    assert CliRunner().invoke(app, ["topics", "drift"]).exit_code == 1
    refused = CliRunner().invoke(app, command)
    assert isinstance(refused.exception, Conflict)


def test_the_same_events_in_the_same_order_per_key(project: Settings, tmp_path: Path) -> None:
    declarations = declared(project)
    create_missing(project, declarations.topics.values())
    events = inject(flight_events(datetime(2013, 2, 1, tzinfo=UTC).date(), 1, declarations), Faults(duplicates=0.2), 1)
    with Producer(project, declarations) as producer:
        summary = publish(producer, events, tmp_path / "run.parquet", Pace())
    rows = pl.read_parquet(summary.file)
    assert rows["publish_time"].equals(events["publish_time"])
    for partition in rows.partition_by("topic", "partition"):
        assert partition["offset"].is_sorted()


def test_a_run_that_is_stopped_keeps_what_has_a_receipt(project: Settings, tmp_path: Path) -> None:
    declarations = declared(project)
    create_missing(project, declarations.topics.values())
    events = flight_events(datetime(2013, 3, 1, tzinfo=UTC).date(), 3, declarations)
    file = tmp_path / "run.parquet"

    def stop(count: int) -> None:
        raise KeyboardInterrupt

    with Producer(project, declarations) as producer, pytest.raises(KeyboardInterrupt):
        publish(producer, events, file, Pace(), stop)
    sent = in_file(file)
    assert 0 < len(sent) < events.height
    assert sent == everything(project, *declarations.topics)
    with Producer(project, declarations) as producer, pytest.raises(BadInput) as caught:
        publish(producer, events, file, Pace())
    assert caught.value.code == "FILE_EXISTS"


@pytest.mark.parametrize("pace", [Pace(rate=1500), Pace(speed=43_200)], ids=["rate", "speed"])
def test_the_pace_is_kept(project: Settings, tmp_path: Path, pace: Pace) -> None:
    """The events of one day: 2,600 records over a day and a half."""
    declarations = declared(project)
    create_missing(project, declarations.topics.values())
    events = flight_events(datetime(2013, 3, 1, tzinfo=UTC).date(), 1, declarations)
    with Producer(project, declarations) as producer:
        summary = publish(producer, events, tmp_path / "run.parquet", pace)
    rows = pl.read_parquet(summary.file)
    published, appended = (
        rows.select(pl.col(name).max() - pl.col(name).min()).item().total_seconds()
        for name in ("publish_time", "append_time")
    )
    if pace.speed is not None:
        expected = published / pace.speed
    else:
        assert pace.rate is not None
        expected = rows.height / pace.rate
    assert appended == pytest.approx(expected, rel=0.1, abs=0.2)
    assert expected > 1.5
