"""Contracts from schemas: the same names and types that landing makes of the records, and what no contract can hold."""

from __future__ import annotations

import base64
import json
import runpy
from pathlib import Path
from typing import Any

import pytest
from anabranch.apps.cli._contract_commands import inferred
from anabranch.contracts import Avro, Contract, Raw, Record, Topic
from anabranch.contracts.fields.registered_schema import RegisteredSchema
from anabranch.contracts.formats import Undecodable, avro_reader, shape_of
from anabranch.contracts.formats._avro import AvroReader
from anabranch.contracts.model.infer_schema import infer_from_schema
from anabranch.core.errors import BadDefinition, BadInput
from google.protobuf import descriptor_pb2, timestamp_pb2
from support.avro_records import ORDER_SCHEMA, avro, protobuf_order, text

pytestmark = pytest.mark.unit
WIDE: dict[str, Any] = {
    "type": "record",
    "name": "Wide",
    "fields": [
        {"name": "event_id", "type": "string"},
        {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}]},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "labels", "type": {"type": "map", "values": "string"}},
        {"name": "gaps", "type": {"type": "map", "values": ["null", "string"]}},
        {"name": "either", "type": ["string", "int"]},
        {"name": "holes", "type": {"type": "array", "items": ["null", "string"]}},
        {"name": "never", "type": "null"},
        {"name": "huge", "type": {"type": "bytes", "logicalType": "decimal", "precision": 60, "scale": 2}},
        {
            "name": "parts",
            "type": {
                "type": "array",
                "items": {"type": "record", "name": "Part", "fields": [{"name": "n", "type": "long"}]},
            },
        },
        {"name": "where", "type": {"type": "record", "name": "Place", "fields": [{"name": "city", "type": "string"}]}},
    ],
}


def declared(tmp_path: Path, found: Any, files: dict[str, str] | None = None) -> Topic:
    """The topic that the written files declare."""
    for name, content in {f"{found.name}.v1.json": found.contract_file(), **(files or {})}.items():
        (tmp_path / name).write_text(content)
    module = tmp_path / "orders.py"
    module.write_text(found.declaration("orders"))
    topic = runpy.run_path(str(module))["ORDERS"]
    assert isinstance(topic, Topic)
    return topic


def test_an_avro_schema_becomes_a_topic_that_can_be_declared(tmp_path: Path) -> None:
    schema = RegisteredSchema("avro", text(ORDER_SCHEMA))
    argument = 'schema=Path(__file__).parent / "order.placed.avsc"'
    found = infer_from_schema("order.placed", schema, "order.avsc", (argument,))
    topic = declared(tmp_path, found, {"order.placed.avsc": schema.text})
    assert isinstance(topic.records, Avro)
    assert (topic.records.id, topic.records.time) == ("orderId", "placedAt")
    properties = topic.contracts[0].schema["properties"]
    assert properties["total"] == {"type": "number", "format": "decimal", "precision": 12, "scale": 2}
    assert topic.contracts[0].schema["required"] == ["orderId", "total", "placedAt", "lines", "country", "tags"]
    assert "inferred from order.avsc" in found.declaration("orders")


def test_a_protobuf_schema_becomes_a_topic_too(tmp_path: Path) -> None:
    file = descriptor_pb2.FileDescriptorProto()
    protobuf_order().DESCRIPTOR.file.CopyToProto(file)
    del file.message_type[0]  # the first message is the one that is read
    schema = RegisteredSchema("protobuf", base64.b64encode(file.SerializeToString()).decode())
    topic = declared(tmp_path, infer_from_schema("order.placed", schema, "the subject orders-value"))
    assert (topic.records.id, topic.records.time) == ("order_id", "placed_at")  # type: ignore[union-attr]
    lines = topic.contracts[0].schema["properties"]["lines"]
    assert lines["items"]["properties"] == {"sku": {"type": "string"}, "cents": {"type": "integer"}}


def test_a_compiled_protobuf_schema_is_read_with_what_it_imports(tmp_path: Path) -> None:
    money = descriptor_pb2.FileDescriptorProto(name="shop/money.proto", package="shop", syntax="proto3")
    money.message_type.add(name="Money").field.add(name="cents", number=1, type=3, label=1)
    sale = descriptor_pb2.FileDescriptorProto(name="sale.proto", syntax="proto3")
    sale.dependency[:] = ["shop/money.proto", "google/protobuf/timestamp.proto"]
    fields = sale.message_type.add(name="Sale").field
    fields.add(name="sale_id", number=1, type=9, label=1)
    fields.add(name="paid", number=2, type=11, label=1, type_name=".shop.Money")
    fields.add(name="sold_at", number=3, type=11, label=1, type_name=".google.protobuf.Timestamp")
    known = descriptor_pb2.FileDescriptorProto()
    timestamp_pb2.DESCRIPTOR.CopyToProto(known)
    file = tmp_path / "sale.desc"
    file.write_bytes(descriptor_pb2.FileDescriptorSet(file=[known, money, sale]).SerializeToString())
    found, more = inferred(str(file), "sale.made", "sales", "")
    assert (found.format, found.id, found.time, more) == ("Protobuf", "sale_id", '"sold_at"', {})
    assert found.fields["paid"]["properties"] == {"cents": {"type": "integer"}}


@pytest.mark.parametrize(
    ("name", "content"), [("a.desc", b""), ("a.binpb", b"\xff"), ("a.proto", b"x"), ("b.desc", None)]
)
def test_a_protobuf_schema_that_cannot_be_read_says_how_to_compile_it(
    tmp_path: Path, name: str, content: bytes | None
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(BadInput, match="SAMPLE") as error:
        inferred(str(tmp_path / name), "sale.made", "sales", "")
    assert error.value.next_step.startswith("protoc --include_imports --descriptor_set_out=")


def test_what_no_contract_can_hold_is_left_out_with_the_reason() -> None:
    found = infer_from_schema("thing.made", RegisteredSchema("avro", json.dumps(WIDE)), "wide.avsc")
    assert found.left_out == (
        "either: left out, it may be string or int, and a column has one type",
        "never: left out, it is always null",
        "huge: left out, no column can hold decimal(60,2)",
    )
    properties = found.schema["properties"]
    assert properties["event_id_sent"] == {"type": "string", "sent_as": "event_id"}
    assert properties["at"] == {"type": "string", "format": "date-time"}
    assert properties["labels"] == {"type": "object", "additionalProperties": {"type": "string"}}
    assert found.schema["required"] == ["event_id_sent", "day", "labels", "gaps", "holes", "parts", "where"]


@pytest.mark.parametrize(
    ("kind", "logical", "node", "value", "read"),
    [
        ("string", "decimal", {"type": "string"}, "12.50", "12.50"),
        ("int", "decimal", {"type": "integer"}, 1250, 1250),
        ("long", "decimal", {"type": "integer"}, 1250, 1250),
        ("string", "date", {"type": "string"}, "today", "today"),
        ("int", "timestamp-millis", {"type": "integer"}, 5, 5),
        ("double", "timestamp-micros", {"type": "number"}, 0.5, 0.5),
    ],
)
def test_a_logical_type_of_another_type_is_ignored(kind: str, logical: str, node: Any, value: Any, read: Any) -> None:
    made = {"type": kind, "logicalType": logical, "precision": 6, "scale": 2}
    schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": made}]}
    plain = {"type": "record", "name": "R", "fields": [{"name": "a", "type": kind}]}
    registered = RegisteredSchema("avro", json.dumps(schema))
    assert shape_of(registered).node["properties"]["a"] == node
    assert avro_reader(registered).read(avro({"a": value}, plain), 0, "here") == {"a": read}


def test_a_value_that_cannot_be_changed_is_undecodable() -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "double"}]}
    reader = AvroReader(RegisteredSchema("avro", json.dumps(schema)))
    reader._change = lambda value: value["b"]
    with pytest.raises(Undecodable, match=r"^not_avro: a value isn't what its schema says: KeyError \(here\)$"):
        reader.read(avro({"a": 0.5}, schema), 0, "here")


@pytest.mark.parametrize(
    "schema", ['"int"', "{", '{"type": "record", "name": "A", "fields": [{"name": "a", "type": "A"}]}']
)
def test_what_is_no_schema_of_records_is_refused(schema: str) -> None:
    with pytest.raises(BadInput) as raised:
        infer_from_schema("thing.made", RegisteredSchema("avro", schema), "x.avsc")
    assert raised.value.code == "SAMPLE"


@pytest.mark.parametrize(
    ("field", "why"),
    [
        (
            {"total": {"type": "string"}},
            "data.total is a decimal as a number in the schema, and a string in the contract",
        ),
        ({"lines": {"type": "string"}}, "data.lines is a integer in the schema, and a string"),
        ({"price": {"type": "number"}}, "the schema has no data.price"),
        ({"tags": {"type": "array", "items": {"type": "integer"}}}, "data.tags[].items is a string in the schema"),
    ],
)
def test_a_contract_that_its_schema_can_never_meet_is_refused(field: dict[str, Any], why: str) -> None:
    schema = {"type": "object", "properties": {"orderId": {"type": "string"}, **field}}
    with pytest.raises(BadDefinition) as raised:
        Topic(
            "orders",
            (Contract("order.placed", 1, schema),),
            records=Avro(id="orderId", time=Record.APPEND_TIME, schema=text(ORDER_SCHEMA)),
        )
    assert raised.value.code == "MAPPING"
    assert why in str(raised.value)


def test_text_has_one_field() -> None:
    contract = Contract("line.logged", 1, {"type": "object", "properties": {"line": {"type": "string"}}})
    with pytest.raises(BadDefinition, match=r"the schema has no data\.line"):
        Topic("logs", (contract,), records=Raw(id=Record.OFFSET, time=Record.APPEND_TIME))
