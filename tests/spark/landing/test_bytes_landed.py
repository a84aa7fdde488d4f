"""Bytes in landing: of base64 in JSON, and of Avro and Protobuf as they are; what is no base64 is quarantined."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from anabranch.contracts import Avro, Contract, PlainJson, Protobuf, Raw, Record, Topic
from anabranch.contracts.fields.registered_schema import RegisteredSchema
from anabranch.contracts.sending import RecordCheck
from anabranch.core.engine.spark import LIVE
from anabranch.core.settings import Settings
from anabranch.ingest.landing.state import open_landing
from anabranch.ingest.landing.table.schema import landing_schema
from anabranch.ingest.landing.table.schema_projection import node_of
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from support.avro_records import avro, in_wire_format, text
from support.base64_texts import BASE64, NO_BASE64
from support.landed_bytes import landing_of
from support.naive_reader import Record as Sent
from support.things_topic import as_dicts, decided

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
BYTES: dict[str, Any] = {"type": "string", "contentEncoding": "base64"}
BY_LOG: dict[str, Any] = {"id": Record.OFFSET, "time": Record.APPEND_TIME}
PLACES: dict[str, tuple[dict[str, Any], Any]] = {
    "one": (BYTES, lambda it: it),
    "inside": ({"type": "object", "properties": {"a": BYTES}}, lambda it: {"a": it}),
    "several": ({"type": "array", "items": BYTES}, lambda it: [it]),
    "gaps": ({"type": "array", "items": {**BYTES, "type": ["string", "null"]}}, lambda it: [None, it]),
    "named": ({"type": "object", "additionalProperties": BYTES}, lambda it: {"a": it}),
    "lines": (
        {"type": "array", "items": {"type": "object", "properties": {"a": BYTES}}},
        lambda it: [{"a": it}],
    ),
}
TAKEN = Contract("photo.taken", 1, {"type": "object", "properties": {name: node for name, (node, _) in PLACES.items()}})
PHOTOS = Topic("photos", (TAKEN,), records=PlainJson(**BY_LOG))


@pytest.mark.parametrize("settings", [{}, LIVE], ids=["compiled", "interpreted"])
def test_base64_lands_as_bytes_or_is_quarantined(spark: SparkSession, settings: Mapping[str, str]) -> None:
    own = spark.newSession()
    for key, value in {"spark.sql.codegen.wholeStage": "false", **settings}.items():
        own.conf.set(key, value)
    texts = [*BASE64, *NO_BASE64]
    sent = {f"{name} {n}": (name, each) for name in PLACES for n, each in enumerate(texts)}
    values = {case: json.dumps({name: PLACES[name][1](each)}).encode() for case, (name, each) in sent.items()}
    rows, check, wrong = decided(own, values, PHOTOS), RecordCheck(PHOTOS), []
    for case, (name, each) in sent.items():
        row, right = rows[case], BASE64.get(each) if isinstance(each, str) else None
        landed = as_dicts(row["photo_taken"], TAKEN.schema)
        door = check.problem(values[case], json.loads(values[case])) is None
        if right is None:
            fits = row["decision"] == "quarantined" and " is no base64" in row["reason"]
        else:
            fits = row["decision"] == "valid" and landed[name] == PLACES[name][1](right)
        if not fits or door is not (right is not None):
            wrong.append((case, each, row["decision"], row["reason"], landed, door))
    assert wrong == []


FIELDS = [
    {"name": "one", "type": "bytes"},
    {"name": "two", "type": ["null", {"type": "fixed", "name": "f", "size": 2}]},
    {"name": "text", "type": "string"},
]
SCHEMA = {"type": "record", "name": "Photo", "fields": FIELDS}
OF_AVRO = Contract("photo.taken", 1, {"type": "object", "properties": {
    "one": BYTES, "two": BYTES, "text": BYTES, "plain": {"type": "string", "sent_as": "one2"}}})  # fmt: skip


@pytest.mark.parametrize("fast", [False, True], ids=["as JSON", "in columns"])
def test_bytes_of_avro_land_as_they_are(spark: SparkSession, fast: bool) -> None:
    schema = {**SCHEMA, "fields": [*FIELDS, {"name": "one2", "type": "bytes"}]}
    topic = Topic("photos", (OF_AVRO,), records=Avro(**BY_LOG, schema=text(schema)))
    sent = {str(n): (raw, None if n % 2 else raw[:2].ljust(2, b"\x00")) for n, raw in enumerate(BASE64.values())}
    values = {
        name: avro({"one": one, "two": two, "text": base64.b64encode(one).decode(), "one2": one}, schema)
        for name, (one, two) in sent.items()
    }
    values["wrong"] = avro({"one": b"", "two": None, "text": "AA", "one2": b""}, schema)
    rows = decided(spark, values, topic, fast=fast)
    assert rows.pop("wrong")["reason"] == "contract: data.text is no base64"
    assert {name: row["photo_taken"] for name, row in rows.items()} == {
        name: {"one": one, "two": two, "text": one, "plain": base64.b64encode(one).decode()}
        for name, (one, two) in sent.items()
    }


def test_schemas_of_a_registry_may_hold_them_in_another_way(spark: SparkSession) -> None:
    """One schema has bytes, another one their text, and a third one nothing."""
    kinds: dict[int, Any] = {1: "bytes", 2: "string", 3: None}
    schemas = {
        number: {"type": "record", "name": "P", "fields": [
            *([{"name": "it", "type": kind}] if kind else []), {"name": "n", "type": "long"}]}
        for number, kind in kinds.items()
    }  # fmt: skip
    contract = Contract("photo.taken", 1, {"type": "object", "properties": {"it": BYTES, "n": {"type": "integer"}}})
    known = {number: RegisteredSchema("avro", text(schema)) for number, schema in schemas.items()}
    topic = Topic("photos", (contract,), records=Avro(**BY_LOG, schemas=known))
    values = {
        "bytes": in_wire_format(1, avro({"it": b"\x00\xff", "n": 1}, schemas[1])),
        "a text": in_wire_format(2, avro({"it": "AP8=", "n": 1}, schemas[2])),
        "a wrong text": in_wire_format(2, avro({"it": "AP8", "n": 1}, schemas[2])),
        "nothing": in_wire_format(3, avro({"n": 1}, schemas[3])),
    }
    rows = decided(spark, values, topic, fast=True)
    assert {name: row["reason"] for name, row in rows.items() if row["reason"]} == {
        "a wrong text": "contract: data.it is no base64"
    }
    assert [rows[name]["photo_taken"]["it"] for name in ("bytes", "a text", "nothing")] == [b"\x00\xff"] * 2 + [None]


def test_bytes_of_protobuf_land_as_they_are(spark: SparkSession) -> None:
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="photo.proto", package="p", syntax="proto3")
    file.message_type.add(name="Photo").field.add(name="it", number=1, type=kinds.TYPE_BYTES, label=1)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    made = message_factory.GetMessageClass(pool.FindMessageTypeByName("p.Photo"))
    schema = RegisteredSchema("protobuf", base64.b64encode(file.SerializeToString()).decode())
    contract = Contract("photo.taken", 1, {"type": "object", "properties": {"it": BYTES}})
    topic = Topic("photos", (contract,), records=Protobuf(**BY_LOG, schemas={9: schema}))
    values = {
        str(n): in_wire_format(9, b"\x00" + made(it=each).SerializeToString()) for n, each in enumerate(BASE64.values())
    }
    for fast in (False, True):
        rows = decided(spark, values, topic, fast=fast)
        assert [row["photo_taken"]["it"] for row in rows.values()] == list(BASE64.values())


def test_raw_bytes_may_be_declared_as_bytes(spark: SparkSession) -> None:
    contract = Contract("blob.stored", 1, {"type": "object", "properties": {"base64": BYTES}})
    topic = Topic("blobs", (contract,), records=Raw(**BY_LOG, form="base64"))
    rows = decided(spark, {str(n): each for n, each in enumerate(BASE64.values())}, topic)
    assert [row["blob_stored"]["base64"] for row in rows.values()] == list(BASE64.values())


def test_the_landing_table_holds_them(spark: SparkSession, settings: Settings) -> None:
    topic = Topic("photos", (TAKEN,), partitions=1, records=PlainJson(**BY_LOG))
    texts = list(BASE64)[:6]
    begin = datetime(2024, 1, 1, tzinfo=UTC)
    records = [
        Sent(topic.name, 0, n, begin, json.dumps({name: put(each) for name, (_, put) in PLACES.items()}).encode())
        for n, each in enumerate(texts)
    ]
    with landing_of(spark, settings, topic, records) as landed:
        landed.land(records)
    rows = sorted(open_landing(settings, topic).to_pyarrow_table().to_pylist(), key=lambda row: row["offset"])
    right = [{name: put(BASE64[each]) for name, (_, put) in PLACES.items()} for each in texts]
    assert [as_dicts(row["photo_taken"], TAKEN.schema) for row in rows] == right
    schema = spark.createDataFrame(landing_schema(topic).empty_table()).schema
    assert node_of(schema["photo_taken"].dataType)["properties"]["several"] == {"type": "array", "items": BYTES}
