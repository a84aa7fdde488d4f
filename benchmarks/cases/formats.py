"""Landing a full topic of each format, beside a hand-written stream of the same records."""

from __future__ import annotations

import base64
import io
import json
import shutil
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Final

import confluent_kafka
import fastavro
from anabranch.contracts import Avro, CloudEvents, Contract, PlainJson, Protobuf, Raw, Record, Topic
from anabranch.contracts.fields.registered_schema import RegisteredSchema
from anabranch.contracts.model.records import Records
from anabranch.ingest.kafka.admin import create_missing
from anabranch.ingest.landing.stream import start
from anabranch.ingest.schema_registry import keep_schema
from anabranch.lake.layout import landing_table
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

from benchmarks.fairness import check_layout, check_same
from benchmarks.figures import Figure, Report, Sample, Table, all_seconds, middle, ratios
from benchmarks.handwritten import formats as handwritten
from benchmarks.timing import finish, in_turn
from benchmarks.world import SEED, World

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

FIRST: Final = datetime(2024, 3, 1, tzinfo=UTC)
DAYS: Final = 10
CITIES: Final = ("Rome", "Oslo", "Łódź", "New York")
SCHEMA: Final[dict[str, Any]] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "orderId", "type": "string"},
        {"name": "placedAt", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "total", "type": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}},
        {"name": "lines", "type": "long"},
        {"name": "city", "type": "string"},
    ],
}
AVRO_ID, PROTOBUF_ID = 7, 8
_MONEY: Final = {"format": "decimal", "precision": 12, "scale": 2}
_TEXT_TOTAL: Final = {"total": {"type": "string", **_MONEY}}
_NUMBER_TOTAL: Final = {"total": {"type": "number", **_MONEY}}


def _topic(format_: str, records: Records, total: dict[str, Any]) -> Topic:
    fields = {
        "orderId": {"type": "string"},
        "placedAt": {"type": "string", "format": "date-time"},
        **total,
        "lines": {"type": "integer"},
        "city": {"type": "string"},
    }
    schema = {"type": "object", "required": ["orderId"], "properties": fields}
    return Topic(f"orders_{format_}", (Contract(f"order.{format_}", 1, schema),), records=records)


MAPPING: Final[dict[str, Any]] = {"id": "orderId", "time": "placedAt"}
_LINE: Final = Contract("order.text", 1, {"type": "object", "properties": {"text": {"type": "string"}}})
TOPICS: Final = {
    "json": _topic("json", PlainJson(**MAPPING), _TEXT_TOTAL),
    "cloudevents": _topic("cloudevents", CloudEvents(), _TEXT_TOTAL),
    "avro": _topic("avro", Avro(**MAPPING), _NUMBER_TOTAL),
    "avro_own": _topic("avro_own", Avro(schema=json.dumps(SCHEMA), **MAPPING), _NUMBER_TOTAL),
    "protobuf": _topic("protobuf", Protobuf(**MAPPING), {"cents": {"type": "integer"}}),
    "text": Topic("orders_text", (_LINE,), records=Raw(id=Record.KEY, time=Record.APPEND_TIME)),
}
_ENVELOPES: Final = {"cloudevents": handwritten.OF_HEADERS, "text": handwritten.OF_RECORD}
"""Where a record has what isn't in its fields."""
Writer = Callable[[dict[str, Any]], dict[str, Any]]
"""Makes of an order what the producer gets: ``value``, and ``key`` and ``headers`` where the format has them."""


def message_class() -> tuple[type[Any], str]:
    """The class of the message, and its schema as a registry gives it."""
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="orders.proto", syntax="proto3", dependency=[timestamp_pb2.DESCRIPTOR.name]
    )
    order = file.message_type.add(name="Order")
    types = (
        ("orderId", kinds.TYPE_STRING), ("placedAt", kinds.TYPE_MESSAGE), ("cents", kinds.TYPE_INT64),
        ("lines", kinds.TYPE_INT64), ("city", kinds.TYPE_STRING),
    )  # fmt: skip
    for number, (name, kind) in enumerate(types, 1):
        time_type = ".google.protobuf.Timestamp" if kind == kinds.TYPE_MESSAGE else None
        order.field.add(name=name, number=number, type=kind, label=1, type_name=time_type)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    found: type[Any] = message_factory.GetMessageClass(pool.FindMessageTypeByName("Order"))
    return found, base64.b64encode(file.SerializeToString()).decode()


def _orders(count: int) -> Iterator[dict[str, Any]]:
    chance = Random(SEED)
    for number in range(count):
        at = FIRST + timedelta(milliseconds=chance.randrange(DAYS * 86_400_000))
        cents = chance.randrange(100, 100_000)
        yield {"orderId": f"o-{number}", "placedAt": at, "cents": cents, "lines": number % 9, "city": CITIES[cents % 4]}


def _json(order: dict[str, Any]) -> dict[str, Any]:
    kept = {**order, "placedAt": _rfc3339(order)}
    text = json.dumps({**kept, "total": str(Decimal(kept.pop("cents")) / 100)}, ensure_ascii=False)
    return {"value": text.encode()}


def _cloudevent(order: dict[str, Any]) -> dict[str, Any]:
    """In binary mode: the envelope is in the headers."""
    envelope = {"specversion": "1.0", "id": order["orderId"], "source": "/shop", "type": "order.cloudevents"}
    headers = [(f"ce_{name}", text.encode()) for name, text in (*envelope.items(), ("time", _rfc3339(order)))]
    return {**_json(order), "headers": [*headers, ("content-type", b"application/json")]}


def _text(order: dict[str, Any]) -> dict[str, Any]:
    said = f"{_rfc3339(order)} {order['orderId']}: {order['lines']} lines, {order['cents']} cents, {order['city']}"
    return {"key": order["orderId"].encode(), "value": said.encode()}


def _rfc3339(order: dict[str, Any]) -> str:
    return str(order["placedAt"].isoformat()).replace("+00:00", "Z")


def _avro(schema: Any, before: bytes, order: dict[str, Any]) -> dict[str, Any]:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, schema, {**order, "total": Decimal(order["cents"]) / 100})
    return {"value": before + stream.getvalue()}


def _protobuf(kind: type[Any], order: dict[str, Any]) -> dict[str, Any]:
    message = kind(orderId=order["orderId"], cents=order["cents"], lines=order["lines"], city=order["city"])
    message.placedAt.FromDatetime(order["placedAt"])
    return {"value": b"\x00" + PROTOBUF_ID.to_bytes(4, "big") + b"\x00" + bytes(message.SerializeToString())}


def run(world: World) -> Report:
    message, description = message_class()
    parsed = fastavro.parse_schema(SCHEMA)
    writers: dict[str, Writer] = {
        "json": _json,
        "cloudevents": _cloudevent,
        "avro": partial(_avro, parsed, b"\x00" + AVRO_ID.to_bytes(4, "big")),
        "avro_own": partial(_avro, parsed, b""),
        "protobuf": partial(_protobuf, message),
        "text": _text,
    }
    schemas = {
        "avro": (AVRO_ID, RegisteredSchema("avro", json.dumps(SCHEMA))),
        "protobuf": (PROTOBUF_ID, RegisteredSchema("protobuf", description)),
    }
    records = world.pick(2_000, 100_000, 500_000)
    _fill(world, writers, records)
    samples: dict[str, dict[str, list[Sample]]] = {}
    said: list[str] = []
    with world.spark() as spark:
        decoders = {
            "json": handwritten.of_json(),
            "cloudevents": handwritten.of_json(),
            "avro": handwritten.of_avro(SCHEMA),
            "avro_own": handwritten.of_bare_avro(SCHEMA),
            "protobuf": handwritten.of_protobuf(description),
            "text": handwritten.of_text(),
        }
        for format_, decoded in decoders.items():
            samples[format_], rows, layout = _pair(world, spark, format_, decoded, schemas.get(format_))
            said.append(f"{format_}: both landed the same {rows:,} rows. {layout}")
    table = [
        (format_, f"{records / middle(each['platform']):,.0f}", f"{records / middle(each['hand-written']):,.0f}")
        for format_, each in samples.items()
    ]
    seconds = {
        f"{format_}, {job}": found for format_ in samples for job, found in all_seconds(samples[format_]).items()
    }
    return Report(
        "formats",
        "Formats of records",
        f"{records:,} orders in each format, landed into an empty home each time, engine warm, beside a Kafka to Delta "
        "stream that decodes the same fields (Avro by Spark's own decoder, Protobuf by Google's library) and drops "
        "duplicates with Spark's operator. CloudEvents are in binary mode; Avro and Protobuf are in the wire format of "
        "a schema registry, avro_own by the schema of the topic; a text has its id in its key.",
        (Table("", ("format", "platform, records/s", "hand-written, records/s"), tuple(table)),),
        tuple(
            Figure(
                f"formats.{format_}",
                f"speed of landing {format_}, of hand-written",
                ratios(each["hand-written"], each["platform"]),
                limit=0.9,
            )
            for format_, each in samples.items()
        ),
        tuple(said),
        seconds,
    )


def _fill(world: World, writers: dict[str, Writer], records: int) -> None:
    create_missing(world.settings, list(TOPICS.values()))
    producer = confluent_kafka.Producer({"bootstrap.servers": world.settings.brokers, "linger.ms": 50})
    for format_, write in writers.items():
        for number, order in enumerate(_orders(records)):
            producer.poll(0)
            while True:
                try:
                    producer.produce(TOPICS[format_].name, **write(order), partition=number % 4)
                    break
                except BufferError:
                    producer.poll(0.1)
    producer.flush(60)


def _pair(
    world: World, spark: SparkSession, format_: str, decoded: Column, schema: tuple[int, RegisteredSchema] | None
) -> tuple[dict[str, list[Sample]], int, str]:
    """Both jobs in turn; the samples of each, how many rows both have, and their layout."""
    topic, name = TOPICS[format_], f"formats-{format_}"
    envelope = _ENVELOPES.get(format_, handwritten.OF_FIELDS)

    def platform() -> Sample:
        fresh = world.fresh(name)
        if schema is not None:
            keep_schema(fresh, topic, *schema)
        begun = time.perf_counter()
        found = finish(start(spark, fresh, topic, once=True))
        return Sample(time.perf_counter() - begun, found)

    def by_hand() -> Sample:
        folder = world.scratch(f"{name}-hand")
        begun = time.perf_counter()
        query = handwritten.start(
            spark, world.settings.brokers, topic.name, str(folder / "table"), folder / "checkpoint",
            world.settings.max_offsets_per_trigger, decoded, envelope,
        )  # fmt: skip
        found = finish(query)
        return Sample(time.perf_counter() - begun, found)

    samples = in_turn({"platform": platform, "hand-written": by_hand}, world.runs, world.warm_ups(1))
    homes = world.settings.home.parent
    ours = landing_table(world.settings.model_copy(update={"home": homes / name}), topic.name)
    theirs = str(homes / f"{name}-hand" / "table")
    column = topic.contracts[0].column
    fields = [f"data.{field}" for field in topic.contracts[0].fields]
    read = spark.read.format("delta").load
    columns = ["partition", "offset", "value", *envelope, *(f.partition(".")[2] for f in fields)]
    mine = read(ours).where("decision = 'valid'").withColumnRenamed(column, "data")
    rows = check_same(mine.select("*", *fields), read(theirs).select("*", *fields), columns)
    layout = check_layout(ours, theirs)
    for folder in (name, f"{name}-hand"):
        shutil.rmtree(homes / folder, ignore_errors=True)
    return samples, rows, layout
