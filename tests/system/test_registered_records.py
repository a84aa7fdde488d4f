"""Topics in Avro and Protobuf, filled by Confluent's serializers with a schema registry, through to certified views."""

from __future__ import annotations

import json
import secrets
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from anabranch.certify.reconciliation import reconcile
from anabranch.compute.batch.publish import publish
from anabranch.compute.batch.rebuild import rebuild
from anabranch.compute.speed.view_stream import catch_up
from anabranch.contracts import Avro, Contract, Protobuf, Topic
from anabranch.contracts.model.declarations import Declarations
from anabranch.core.settings import Settings
from anabranch.ingest.kafka.admin import create_missing
from anabranch.ingest.landing.audit.quarantine import list_quarantined, release
from anabranch.ingest.landing.audit.verify import verify
from anabranch.ingest.landing.service import LandingStreams
from anabranch.ingest.landing.stream import LandingQuery, start
from anabranch.ingest.schema_registry import kept_schemas
from anabranch.operate.doctor import Context, decode_check, examine, log_of
from anabranch.serve import read
from anabranch.views import Registry, view
from anabranch.views.model.handle import ViewHandle
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from support.avro_records import ORDER_SCHEMA, protobuf_order
from support.processes import eventually
from support.schema_registry import RegistryState, schema_registry
from support.sent_records import raw_producer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.system
FIRST = datetime(2024, 3, 1, tzinfo=UTC)
DAYS = [date(2024, 3, n) for n in (1, 2)]
COUNTRIES = ("DE", "FR", "US")
ORDERED = Contract(
    "order.placed",
    1,
    {
        "type": "object",
        "required": ["orderId", "total"],
        "properties": {
            "orderId": {"type": "string"},
            "total": {"type": "number", "format": "decimal", "precision": 12, "scale": 2},
            "placedAt": {"type": "string", "format": "date-time"},
            "country": {"type": "string"},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
    },
)
SHIPPED = Contract(
    "order.shipped",
    1,
    {
        "type": "object",
        "required": ["order_id", "cents"],
        "properties": {
            "order_id": {"type": "string"},
            "placed_at": {"type": "string", "format": "date-time"},
            "country": {"type": "string"},
            "cents": {"type": "integer"},
            "lines": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"sku": {"type": "string"}, "cents": {"type": "integer"}},
                },
            },
        },
    },
)


@view(name="order_totals", version=1, events=["order.placed"], key=["day", "country"], partition_by="day")
def order_totals(placed: DataFrame) -> DataFrame:
    """Money and orders per day and country."""
    from pyspark.sql import functions as F

    daily = placed.groupBy(F.window("event_time", "1 day"), "country").agg(
        F.sum("total").alias("total"), F.count("*").alias("orders")
    )
    return daily.select(F.to_date("window.start").alias("day"), "country", "total", "orders")


@dataclass
class Place:
    """A home, a broker and a registry."""

    settings: Settings
    registry: RegistryState
    closing: ExitStack

    def client(self) -> SchemaRegistryClient:
        client: SchemaRegistryClient = self.closing.enter_context(SchemaRegistryClient({"url": self.registry.url}))
        return client

    def topic(self, kind: str, contract: Contract, records: Avro | Protobuf) -> Topic:
        topic = Topic(f"{kind}_{secrets.token_hex(4)}", (contract,), 2, records=records)
        create_missing(self.settings, [topic])
        return topic

    def send(self, topic: Topic, values: list[bytes]) -> None:
        producer = raw_producer(self.settings)
        for number, value in enumerate(values):
            producer.produce(topic.name, value=value, partition=number % 2)
        assert producer.flush(30) == 0

    def serializer(self, topic: Topic, schema: dict[str, Any]) -> Callable[[dict[str, Any]], bytes]:
        serializer = AvroSerializer(self.client(), json.dumps(schema))
        context = SerializationContext(topic.name, MessageField.VALUE)
        return lambda value: bytes(serializer(value, context))


@pytest.fixture(scope="module")
def place(broker: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    state = RegistryState(first_id=100_001)
    with schema_registry(state) as url, ExitStack() as closing:
        more = {"home": Path(tmp_path_factory.mktemp("avro")), "shuffle_partitions": 2, "schema_registry_url": url}
        yield Place(broker.model_copy(update={**more, "max_offsets_per_trigger": 300}), state, closing)


def order(number: int) -> dict[str, Any]:
    return {
        "orderId": f"o-{number}",
        "customer": None,
        "total": Decimal(number * 1_000_003) / 100,
        "placedAt": FIRST + timedelta(minutes=5 * number),
        "lines": number,
        "weight": None,
        "country": COUNTRIES[number % 3],
        "tags": ["x"] * (number % 3),
    }


def land(spark: SparkSession, place: Place, topic: Topic) -> str:
    """Land what the log holds; the code of the error that ended it, or ""."""
    query = start(spark, place.settings, topic, once=True)
    try:
        assert query.awaitTermination(240)
    except Exception:  # Spark's, with the text of ours
        assert query.failure is not None
        return query.failure.code
    return ""


def test_avro_by_a_registry_becomes_a_certified_view(spark: SparkSession, place: Place) -> None:
    topic = place.topic("orders", ORDERED, Avro(id="orderId", time="placedAt"))
    first = place.serializer(topic, ORDER_SCHEMA)
    place.send(topic, [first(order(number)) for number in range(200)])
    assert land(spark, place, topic) == ""
    assert set(kept_schemas(place.settings, topic.name)) == {100_001}

    # Two more versions while nothing is landed: landing meets the first of them in the log, and
    # takes in the newest with it.
    with_note = {**ORDER_SCHEMA, "fields": [*ORDER_SCHEMA["fields"], {"name": "note", "type": "string"}]}
    second = place.serializer(topic, with_note)
    third = place.serializer(topic, {**with_note, "doc": "the third"})
    place.send(topic, [second({**order(number), "note": "n"}) for number in range(200, 400)])
    place.send(topic, [third({**order(number), "note": "n"}) for number in range(400, 500)])
    assert land(spark, place, topic) == "SCHEMA_TAKEN_IN"
    assert land(spark, place, topic) == ""
    assert set(kept_schemas(place.settings, topic.name)) == {100_001, 100_002, 100_003}

    # A schema whose total is a text, ids that nobody has registered, and bytes that aren't Avro: nothing waits.
    fields = [{**each, "type": "string"} if each["name"] == "total" else each for each in ORDER_SCHEMA["fields"]]
    texts = place.serializer(topic, {**ORDER_SCHEMA, "fields": fields})
    broken = [texts({**order(1), "total": "1.00"}), b"\x00\x00\x00\x00\x63x", b"{}", first(order(2))[:-9], b""]
    place.send(topic, [*broken, first(order(7))])
    assert land(spark, place, topic) == "SCHEMA_TAKEN_IN"
    assert land(spark, place, topic) == ""
    proof = verify(place.settings, topic)
    assert proof.sound, proof.to_json()
    counts = {name: sum(getattr(p, name) for p in proof.partitions) for name in ("valid", "quarantined", "duplicates")}
    assert counts == {"valid": 500, "quarantined": 5, "duplicates": 1}
    kinds = Counter(record.kind for record in list_quarantined(place.settings, topic))
    assert kinds == {"contract": 1, "unknown_schema": 1, "no_schema_id": 2, "not_avro": 1}

    catch_up(spark, ViewHandle(place.settings, order_totals, topic))
    build = rebuild(spark, ViewHandle(place.settings, order_totals, topic), DAYS, "first")
    verdict = reconcile(spark, ViewHandle(place.settings, order_totals, topic), "first", build)
    assert (list(verdict.equal), verdict.refused) == (DAYS, {})
    publish(ViewHandle(place.settings, order_totals, topic), build, DAYS)
    totals, orders = Counter[tuple[date, str]](), Counter[tuple[date, str]]()
    for each in (order(number) for number in range(500)):
        key = each["placedAt"].date(), each["country"]
        totals[key] += each["total"]
        orders[key] += 1
    served = read("order_totals", settings=place.settings).to_arrow().to_pylist()
    assert {(row["day"], row["country"]): (row["total"], row["orders"]) for row in served} == {
        key: (totals[key], orders[key]) for key in orders
    }


def test_history_is_read_when_the_registry_is_gone(spark: SparkSession, place: Place) -> None:
    topic = place.topic("gone", ORDERED, Avro(id="orderId", time="placedAt"))
    send = place.serializer(topic, ORDER_SCHEMA)
    place.send(topic, [send(order(number)) for number in range(20)])
    assert land(spark, place, topic) == ""
    away = replace(place, settings=place.settings.model_copy(update={"schema_registry_url": "http://127.0.0.1:9"}))
    place.send(topic, [send(order(number)) for number in range(20, 30)])
    assert land(spark, away, topic) == "", "the schema is known"
    declared = Declarations({topic.name: topic})
    context = Context(away.settings, declared, Registry((), declared), log_of(away.settings))
    report = examine(context, [decode_check(spark)], pause=0.1)
    assert [str(finding) for finding in report.findings] == []

    other = place.serializer(topic, {**ORDER_SCHEMA, "doc": "another"})
    place.send(topic, [other(order(30)), send(order(31))])
    assert land(spark, away, topic) == "REGISTRY_UNREACHABLE", "it is waited for"
    assert land(spark, place, topic) == "SCHEMA_TAKEN_IN"
    assert land(spark, place, topic) == ""
    proof = verify(place.settings, topic)
    assert (proof.sound, sum(p.valid for p in proof.partitions)) == (True, 32)


def test_a_topic_that_waits_for_its_registry_ends_no_process(spark: SparkSession, place: Place) -> None:
    """Though it is the only one: a new process would wait for the registry, too."""
    topic = place.topic("waiting", ORDERED, Avro(id="orderId", time="placedAt"))
    send = place.serializer(topic, ORDER_SCHEMA)
    place.send(topic, [send(order(number)) for number in range(10)])
    url, now = "http://127.0.0.1:9", [0.0]

    def launch(each: Topic) -> LandingQuery:
        return start(spark, place.settings.model_copy(update={"schema_registry_url": url}), each)

    def looked_at(code: str) -> bool:
        landing.poll()
        now[0] += 60
        return code in [error.code for error in landing.halted.values()]

    landing = LandingStreams([topic], launch, lambda: now[0])
    eventually(lambda: looked_at("REGISTRY_UNREACHABLE"))
    url = place.registry.url
    try:
        eventually(lambda: looked_at("") or sum(p.valid for p in verify(place.settings, topic).partitions) == 10)
    finally:
        for query in landing.queries.values():
            query.stop()


def test_a_schema_that_was_registered_late_is_read_by_a_release(spark: SparkSession, place: Place) -> None:
    topic = place.topic("late", ORDERED, Avro(id="orderId", time="placedAt"))
    elsewhere = RegistryState(first_id=555_000)
    with schema_registry(elsewhere):
        send = replace(place, registry=elsewhere).serializer(topic, {**ORDER_SCHEMA, "doc": "of another registry"})
        place.send(topic, [send(order(1)), send(order(2))])
    assert land(spark, place, topic) == ""
    assert [each.kind for each in list_quarantined(place.settings, topic)] == ["unknown_schema"] * 2
    place.registry.schemas.update(elsewhere.schemas)
    released = release(spark, place.settings, topic, None, "the schema is registered now")
    assert (released.released, released.still) == (2, {})


def test_protobuf_by_a_registry(spark: SparkSession, place: Place) -> None:
    topic = place.topic("shipped", SHIPPED, Protobuf(id="order_id", time="placed_at"))
    kind = protobuf_order()
    serializer = ProtobufSerializer(kind, place.client())
    context = SerializationContext(topic.name, MessageField.VALUE)

    def message(number: int) -> bytes:
        found = kind(order_id=f"o-{number}", country=number % 3, cents=2**53 + number)
        found.placed_at.FromDatetime(FIRST + timedelta(minutes=number))
        found.lines.add(sku=f"s-{number}", cents=number)
        return bytes(serializer(found, context))

    broken = [message(1)[:-1], message(1)[:7], b"\x00\x00\x00\x00\x63\x00", b"\x00" + message(1)[1:5] + b"\x02\x08"]
    place.send(topic, [*(message(number) for number in range(40)), *broken])
    assert land(spark, place, topic) == ""
    rows = [row for row in read_landing(place, topic) if row["decision"] == "valid"]
    assert sorted(row["order_shipped"]["cents"] for row in rows) == [2**53 + number for number in range(40)]
    (seventh,) = (row for row in rows if row["event_id"] == "o-7")
    assert seventh["order_shipped"]["lines"] == [{"sku": "s-7", "cents": 7}]
    assert (seventh["order_shipped"]["country"], seventh["event_time"]) == ("FR", FIRST + timedelta(minutes=7))
    kinds = Counter(record.kind for record in list_quarantined(place.settings, topic))
    assert kinds == {"not_protobuf": 2, "mapping": 1, "unknown_schema": 1}, "without fields it is a message, too"


def read_landing(place: Place, topic: Topic) -> list[dict[str, Any]]:
    from anabranch.lake.layout import landing_table
    from deltalake import DeltaTable

    found: list[dict[str, Any]] = DeltaTable(landing_table(place.settings, topic.name)).to_pyarrow_table().to_pylist()
    return found
