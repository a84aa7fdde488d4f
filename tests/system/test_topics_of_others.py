"""A topic that others have made and fill with plain JSON, through to a view that both paths agree on."""

from __future__ import annotations

import json
import secrets
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anabranch
import confluent_kafka
import pytest
from anabranch.apps.cli.main import app
from anabranch.certify.reconciliation import reconcile
from anabranch.compute.batch.publish import publish
from anabranch.compute.batch.rebuild import rebuild
from anabranch.compute.speed.view_stream import catch_up
from anabranch.contracts import CloudEvents, Contract, PlainJson, Record, TimeField, Topic, load_declarations
from anabranch.contracts.model.declarations import Declarations
from anabranch.core.errors import BadInput, Conflict
from anabranch.core.settings import Settings
from anabranch.ingest.files import try_records
from anabranch.ingest.kafka.admin import create_missing, drift, existing_topics
from anabranch.ingest.kafka.look import newest
from anabranch.ingest.landing.audit.accepted_losses import accept_log
from anabranch.ingest.landing.audit.quarantine import list_quarantined, release
from anabranch.ingest.landing.audit.verify import verify
from anabranch.ingest.landing.kafka_source import read_range
from anabranch.ingest.landing.stream import start
from anabranch.lake.layout import landing_table
from anabranch.operate.doctor import CHECKS, Context, decode_check, examine, log_of
from anabranch.operate.runtime.lag import lag
from anabranch.serve import read
from anabranch.views import Registry, view
from anabranch.views.model.handle import ViewHandle
from cloudevents.core.bindings.kafka import to_binary, to_structured
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent
from confluent_kafka.admin import AdminClient, NewTopic
from deltalake import DeltaTable
from support.sent_records import raw_producer
from typer.testing import CliRunner

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.system
PAID = Contract(
    "payment.made",
    1,
    {
        "type": "object",
        "required": ["paymentId", "cents"],
        "properties": {
            "paymentId": {"type": "string"},
            "createdAt": {"type": "integer"},
            "cents": {"type": "integer", "minimum": 0},
            "shop": {"type": "object", "properties": {"city": {"type": "string"}}},
        },
    },
)
MAPPING = PlainJson(id="paymentId", time=TimeField("createdAt", unit="ms"), subject="shop.city", source="till")
FIRST = datetime(2024, 3, 1, tzinfo=UTC)
DAYS = [date(2024, 3, n) for n in (1, 2, 3)]
CITIES = ("Rome", "Oslo", "Łódź")


@view(name="takings", version=1, events=["payment.made"], key=["day", "city"], partition_by="day")
def takings(paid: DataFrame) -> DataFrame:
    """Cents and payments per day and city."""
    from pyspark.sql import functions as F

    daily = paid.groupBy(F.window("event_time", "1 day"), F.col("shop.city").alias("city")).agg(
        F.sum("cents").alias("cents"), F.count("*").alias("payments")
    )
    return daily.select(F.to_date("window.start").alias("day"), "city", "cents", "payments")


def payment(number: int, **more: Any) -> dict[str, Any]:
    """One every five minutes, for three days; every 50th was made a day before it was sent."""
    made = FIRST + timedelta(minutes=5 * number) - timedelta(days=1 if number % 50 == 49 and number > 400 else 0)
    body = {"paymentId": f"p-{number}", "createdAt": int(made.timestamp() * 1000), "cents": number * 7 + 1}
    return {**body, "shop": {"city": CITIES[number % 3]}, "terminal": {"deviceId": number % 9}, **more}


@pytest.fixture(scope="module")
def topic(broker: Settings) -> Topic:
    """As another team has made it: by their own client, timestamps by the producer, three partitions."""
    name = f"payments_{secrets.token_hex(4)}"
    made = NewTopic(name, 3, config={"message.timestamp.type": "CreateTime", "retention.ms": "-1"})
    client = AdminClient({"bootstrap.servers": broker.brokers})  # its answers end with it
    for answer in client.create_topics([made]).values():
        answer.result(30)
    return Topic(name, (PAID,), records=MAPPING, owned=False, allowed_lateness=timedelta(hours=2))


@pytest.fixture(scope="module")
def settings(broker: Settings, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    more = {"home": Path(tmp_path_factory.mktemp("plain")), "shuffle_partitions": 2, "max_offsets_per_trigger": 300}
    return broker.model_copy(update=more)


def send(settings: Settings, topic: Topic, values: Sequence[bytes]) -> None:
    producer = raw_producer(settings)
    for number, value in enumerate(values):
        producer.produce(topic.name, value=value, partition=number % 3)
    assert producer.flush(30) == 0


def land(spark: SparkSession, settings: Settings, topic: Topic) -> None:
    assert start(spark, settings, topic, once=True).awaitTermination(240)


def test_a_topic_of_others_is_landed_as_it_is_and_its_view_is_certified(
    spark: SparkSession, settings: Settings, topic: Topic
) -> None:
    handle = ViewHandle(settings, takings, topic)
    payments = [payment(number) for number in range(860)]
    broken = [b"", b"{", b'{"paymentId": "x"}', json.dumps(payment(1, cents=-5)).encode()]
    twice = [json.dumps(payments[number]).encode() for number in (3, 500)]
    send(settings, topic, [json.dumps(each, ensure_ascii=False).encode() for each in payments] + broken + twice)
    assert create_missing(settings, [topic]) == ()
    assert drift(settings, [topic]) == ()
    tried = try_records(spark, settings, topic, newest(settings, topic.name, 2_000))
    assert (tried.valid, tried.repeated, tried.quarantined) == (860, 2, 4)
    assert sum(problem.count for problem in tried.problems.values()) == 4
    assert not Path(landing_table(settings, topic.name)).exists(), "nothing has landed yet"

    land(spark, settings, topic)
    proof = verify(settings, topic)
    assert proof.sound, proof.to_json()
    counts = {name: sum(getattr(p, name) for p in proof.partitions) for name in ("valid", "quarantined", "duplicates")}
    assert counts == {"valid": 860, "quarantined": 4, "duplicates": 2}
    kinds = Counter(record.kind for record in list_quarantined(settings, topic))
    assert kinds == {"not_json": 2, "contract": 2}

    catch_up(spark, handle)
    build = rebuild(spark, handle, DAYS, "first")
    verdict = reconcile(spark, handle, "first", build)
    assert (list(verdict.equal), verdict.refused) == (DAYS, {})
    publish(handle, build, DAYS)
    expected: dict[tuple[date, str], list[int]] = defaultdict(lambda: [0, 0])
    for each in payments:
        made = datetime.fromtimestamp(each["createdAt"] / 1000, UTC)
        row = expected[made.date(), each["shop"]["city"]]
        row[0], row[1] = row[0] + each["cents"], row[1] + 1
    served = read("takings", settings=settings).to_arrow().to_pylist()
    assert {(row["day"], row["city"]): [row["cents"], row["payments"]] for row in served} == expected
    assert sum(p.late for p in proof.partitions) > 0, "late events are what makes both halves differ"


def test_the_doctor_holds_rows_to_their_bytes(spark: SparkSession, settings: Settings, topic: Topic) -> None:
    declared = Declarations({topic.name: topic})
    report = examine(Context(settings, declared, Registry((takings,), declared), log_of(settings)), pause=0.1)
    assert [str(finding) for finding in report.findings] == []
    assert not report.unseen


def test_a_wider_contract_releases_what_was_in_quarantine(
    spark: SparkSession, settings: Settings, topic: Topic
) -> None:
    schema = {**PAID.schema, "properties": {**PAID.schema["properties"], "cents": {"type": "integer"}}}
    wider = Topic(topic.name, (Contract(PAID.name, 1, schema),), records=MAPPING, owned=False)
    released = release(spark, settings, wider, None, "refunds are payments below zero")
    assert (released.released, released.duplicates) == (0, 1), "its id is that of a payment that has landed"


def test_events_in_binary_mode_are_landed_with_their_headers_and_released_by_them(
    spark: SparkSession, settings: Settings
) -> None:
    pushed = Contract("payment.pushed", 1, PAID.schema)
    topic = Topic(f"pushed_{secrets.token_hex(4)}", (pushed,), partitions=1)
    create_missing(settings, [topic])
    producer, sent = raw_producer(settings), []
    for number, cents in enumerate([100, -5]):
        made = {"id": f"e-{number}", "source": "/till", "specversion": "1.0", "type": pushed.name, "time": FIRST}
        data = {"paymentId": f"p-{number}", "cents": cents}
        message = to_binary(CloudEvent({**made, "datacontenttype": "application/json"}, data), JSONFormat())
        sent.append(message)
        producer.produce(topic.name, value=message.value, headers=dict(message.headers))
    assert producer.flush(30) == 0
    tried = try_records(spark, settings, topic, newest(settings, topic.name, 10))
    assert (tried.valid, [*tried.problems]) == (1, ["field cents is below 0"]), "headers are read, too"

    land(spark, settings, topic)

    proof = verify(settings, topic)
    assert proof.sound, proof.to_json()
    assert [(p.valid, p.quarantined) for p in proof.partitions] == [(1, 1)]
    (refused,) = list_quarantined(settings, topic)
    assert refused.reason == "contract: data.cents is below 0"
    assert refused.headers == tuple(sent[1].headers.items())
    schema = {**PAID.schema, "properties": {**PAID.schema["properties"], "cents": {"type": "integer"}}}
    released = release(spark, settings, replace(topic, contracts=(Contract(pushed.name, 1, schema),)), None, "refunds")
    assert (released.released, released.still) == (1, {})
    landed = DeltaTable(landing_table(settings, topic.name)).to_pyarrow_table().to_pylist()
    valid = {row["event_id"]: row for row in landed if row["decision"] == "valid"}
    assert {name: row["payment_pushed"]["cents"] for name, row in valid.items()} == {"e-0": 100, "e-1": -5}
    assert [each["key"] for each in valid["e-1"]["headers"]] == list(sent[1].headers), "a release keeps them"


def test_a_topic_that_is_not_there_is_named_and_never_created(spark: SparkSession, settings: Settings) -> None:
    contract = Contract("payment.lost", 1, PAID.schema)
    gone = Topic(f"gone_{secrets.token_hex(4)}", (contract,), records=MAPPING, owned=False)
    assert create_missing(settings, [gone]) == ()
    assert [(d.setting, d.found) for d in drift(settings, [gone])] == [("topic", "missing")]
    with pytest.raises(BadInput, match=gone.name) as error:
        start(spark, settings, gone, once=True)
    assert error.value.code == "TOPIC_MISSING"


ORDERS = """from anabranch.contracts import Contract, PlainJson, Topic
ORDERS = Topic(
    "orders",
    (Contract("order.taken", 1, {{"type": "object", "required": ["orderId"], "properties": {{
        "orderId": {{"type": "string"}}, "at": {{"type": "string", "format": "date-time"}}}}}}),),
    records=PlainJson(id="orderId", time="at"),
    kafka_topic="{0}",
    owned=False,
)
"""


def said(*command: str) -> Any:
    found = CliRunner().invoke(app, command)
    assert found.exit_code == 0, found.output
    return json.loads(found.output.splitlines()[-1])


@view(name="orders_a_day", version=1, events=["order.taken"], key=["day"], partition_by="day")
def orders_a_day(taken: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    daily = taken.groupBy(F.window("event_time", "1 day")).agg(F.count("*").alias("orders"))
    return daily.select(F.to_date("window.start").alias("day"), "orders")


def test_a_topic_whose_name_only_kafka_allows_has_one_of_ours_from_the_record_to_the_view(
    spark: SparkSession, broker: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = f"prod.Orders-v2.{secrets.token_hex(4)}"
    client = AdminClient({"bootstrap.servers": broker.brokers})
    for answer in client.create_topics([NewTopic(name, 2) for name in (other, f"{other}.copy")]).values():
        answer.result(30)
    contracts = tmp_path / "spark_jobs" / "contracts"
    contracts.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text("[tool.anabranch]\n")
    (contracts / "orders.py").write_text(ORDERS.format(other))
    more = {"home": tmp_path / "home", "project": tmp_path, "shuffle_partitions": 2}
    settings = broker.model_copy(update=more)
    topic = load_declarations(contracts).topic("orders")
    orders = [{"orderId": f"o-{n}", "at": f"2024-03-0{n % 2 + 1}T10:00:{n:02}Z"} for n in range(40)]
    receipts = anabranch.send_all("orders", orders[:20], settings=settings)
    assert {receipt.topic for receipt in receipts} == {"orders"}
    land(spark, settings, topic)

    transactional = raw_producer(settings, **{"transactional.id": other})
    transactional.init_transactions(30)
    transactional.begin_transaction()
    for order in orders[20:]:
        transactional.produce(other, json.dumps(order).encode(), order["orderId"])
    transactional.commit_transaction(30)
    land(spark, settings, topic)  # continues by its checkpoint, and proves the markers empty
    assert not (settings.checkpoints / "landing" / "orders.aside").exists()

    proof = verify(settings, topic)
    assert proof.sound, proof.to_json()
    assert (proof.topic, sum(p.valid for p in proof.partitions), sum(p.holes for p in proof.partitions)) == (
        "orders",
        40,
        len(proof.partitions),
    )
    rows = DeltaTable(landing_table(settings, "orders")).to_pyarrow_table().to_pylist()
    assert {(row["topic"], row["source"]) for row in rows} == {("orders", "orders")}
    again = read_range(spark, settings, topic, {0: (0, proof.partitions[0].landed_to)}).select("topic").distinct()
    assert [row.topic for row in again.collect()] == ["orders"]
    assert lag(settings)["landing"] == "orders: 0 records"
    assert drift(settings, [topic]) == ()
    declared = Declarations({"orders": topic})
    report = examine(Context(settings, declared, Registry((orders_a_day,), declared), log_of(settings)), pause=0.1)
    assert [str(finding) for finding in report.findings] == []

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ANABRANCH_BOOTSTRAP_SERVERS", settings.brokers)
    monkeypatch.setenv("ANABRANCH_HOME", str(settings.home))
    for name in ("orders", other):
        told = said("events", "tail", name, "-n", "3", "--json")
        assert told["topic"] == other
        place = f"{receipts[0].partition}:{receipts[0].offset}"
        told = said("events", "show", name, place, "--json")
        assert (told["record"]["value"]["orderId"], told["landed"]["event_id"]) == ("o-0", "o-0")
    (listed,) = said("topics", "list", "--json")
    assert (listed["topic"], listed["kafka_topic"], listed["exists"]) == ("orders", other, True)

    handle = ViewHandle(settings, orders_a_day, topic)
    catch_up(spark, handle)
    days = [date(2024, 3, 1), date(2024, 3, 2)]
    build = rebuild(spark, handle, days, "named")
    assert list(reconcile(spark, handle, "named", build).equal) == days
    publish(handle, build, days)
    served = read("orders_a_day", settings=settings, at_least="orders@2").to_arrow().to_pylist()
    assert sorted((row["day"], row["orders"]) for row in served) == [(day, 20) for day in days]

    copy = replace(topic, kafka_topic=f"{other}.copy")
    with pytest.raises(Conflict) as error:
        start(spark, settings, copy, once=True)
    assert error.value.code == "LOG_REPLACED"
    assert f"topic orders ({other}.copy in Kafka) was deleted and created again, or its declaration named" in str(
        error.value
    )
    producer = confluent_kafka.Producer({"bootstrap.servers": settings.brokers, "enable.idempotence": True})
    for p in proof.partitions:  # the same offsets, as a mirror has them
        for _ in range(p.landed_to):
            producer.produce(copy.in_kafka, b"{}", partition=p.partition)
    for number in range(3):
        producer.produce(copy.in_kafka, json.dumps({**orders[0], "orderId": f"new-{number}"}).encode(), partition=0)
    assert producer.flush(30) == 0
    accept_log(settings, copy, "the cluster was mirrored")
    land(spark, settings, copy)
    proof = verify(settings, copy)
    assert (proof.sound, sum(p.valid for p in proof.partitions)) == (True, 43)


def test_events_of_others_are_inferred_landed_and_released_by_what_their_producers_call_them(
    spark: SparkSession, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"shop.Events-{secrets.token_hex(4)}"
    client = AdminClient({"bootstrap.servers": settings.brokers})
    made = NewTopic(name, 1, config={"message.timestamp.type": "CreateTime", "retention.ms": "-1"})
    for answer in client.create_topics([made]).values():
        answer.result(30)
    producer, schema = raw_producer(settings), "https://shop.example/schemas/parcel"
    for number in range(10):
        given: dict[str, Any] = {
            "id": f"e-{number}",
            "source": "/shop",
            "specversion": "1.0",
            "type": "com.example.ParcelSent",
        }
        given |= {"time": FIRST, "datacontenttype": "application/json", "dataschema": schema}
        write = to_binary if number % 2 else to_structured
        message = write(CloudEvent(given, {"parcelId": f"p-{number}", "grams": number}), JSONFormat())
        producer.produce(name, value=message.value, headers=dict(message.headers), timestamp=1_709_300_000_000)
    untimed: dict[str, Any] = {"specversion": "1.0", "id": "e-10", "source": "/shop", "type": "com.example.ParcelSent"}
    untimed |= {"data": {"parcelId": "p-10", "grams": 10}}
    producer.produce(name, value=json.dumps(untimed), timestamp=1_709_300_000_000)
    assert producer.flush(30) == 0

    (tmp_path / "pyproject.toml").write_text("[tool.anabranch]\n")
    contracts = tmp_path / "spark_jobs" / "contracts"
    contracts.mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ANABRANCH_BOOTSTRAP_SERVERS", settings.brokers)
    added = CliRunner().invoke(app, ["topics", "add", name], input="\n" * 9)
    assert added.exit_code == 0, added.output
    assert "Its event type [parcel.sent]" in added.output
    topic = next(iter(load_declarations(contracts).topics.values()))
    assert (topic.in_kafka, topic.event_types, topic.owned) == (name, ("parcel.sent",), False)
    assert topic.records == CloudEvents({"com.example.ParcelSent": "parcel.sent"}, {schema: 1}, Record.APPEND_TIME)

    settings = settings.model_copy(update={"home": tmp_path / "home"})
    land(spark, settings, replace(topic, records=CloudEvents()))
    kinds = Counter(record.kind for record in list_quarantined(settings, topic))
    assert kinds == {"unknown_type": 10, "envelope": 1}, "the default takes ours only"
    released = release(spark, settings, topic, None, "they are called so")
    assert (released.released, released.still) == (11, {})
    proof = verify(settings, topic)
    assert proof.sound, proof.to_json()
    rows = DeltaTable(landing_table(settings, topic.name)).to_pyarrow_table().to_pylist()
    valid = {row["event_id"]: row for row in rows if row["decision"] == "valid"}
    assert sorted(row["parcel_sent"]["grams"] for row in valid.values()) == [*range(11)]
    assert {row["event_time"] for name, row in valid.items() if name != "e-10"} == {FIRST}
    assert valid["e-10"]["event_time"] == datetime.fromtimestamp(1_709_300_000, UTC)
    declared = Declarations({topic.name: topic})
    context = Context(settings, declared, Registry((), declared), log_of(settings))
    report = examine(context, (*CHECKS, decode_check(spark)), pause=0.1)
    assert [str(finding) for finding in report.findings] == []


def test_a_topic_of_ours_is_created_and_compared_by_its_name_in_kafka(settings: Settings) -> None:
    other, contract = f"prod.Invoices-{secrets.token_hex(4)}", Contract("invoice.sent", 1, PAID.schema)
    topic = Topic("invoices", (contract,), partitions=3, kafka_topic=other, replication=1)
    assert [(d.topic, d.found) for d in drift(settings, [topic])] == [("invoices", "missing")]
    assert create_missing(settings, [topic]) == ("invoices",)
    assert create_missing(settings, [topic]) == ()
    assert {name: n for name, n in existing_topics(settings).items() if "nvoices" in name} == {other: 3}
    assert drift(settings, [topic]) == ()
    found = drift(settings, [replace(topic, partitions=4, retention=timedelta(days=1))])
    assert [(d.topic, d.setting, d.found) for d in found] == [
        ("invoices", "partitions", "3"), ("invoices", "retention.ms", topic.broker_config["retention.ms"]),
    ]  # fmt: skip
