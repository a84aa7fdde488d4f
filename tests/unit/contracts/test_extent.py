"""Schemas of a few KB that stand for billions of types are refused before anything walks through them."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from anabranch.contracts.fields.registered_schema import RegisteredSchema
from anabranch.contracts.formats import Undecodable, avro_reader, encode, protobuf_reader, shape_of
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto

pytestmark = [pytest.mark.unit, pytest.mark.timeout(20)]
MANY, DEEP = "over 10,000 types where each name stands for its definition", "nested over 200 levels deep"
INT: dict[str, Any] = {"name": "x", "type": "int"}


def avro(schema: Any, *references: Any) -> RegisteredSchema:
    texts = tuple((each["name"], json.dumps(each)) for each in references)
    return RegisteredSchema("avro", json.dumps(schema), texts)


def doubled(times: int) -> RegisteredSchema:
    """Each record uses the one before it twice."""
    found: dict[str, Any] = {"type": "record", "name": "A0", "fields": [INT]}
    for n in range(1, times + 1):
        fields = [{"name": "a", "type": ["null", found]}, {"name": "b", "type": {"type": "map", "values": f"A{n - 1}"}}]
        found = {"type": "record", "name": f"A{n}", "fields": fields}
    return avro(found)


def chained(length: int) -> RegisteredSchema:
    """Each record uses the one before it once, by its name: JSON's own depth is no bound."""
    records = [
        {"type": "record", "name": f"A{n}", "fields": [INT, *([{"name": "a", "type": f"A{n - 1}"}] if n else [])]}
        for n in range(length)
    ]
    return avro({"type": "record", "name": "R", "fields": [{"name": "all", "type": f"A{length - 1}"}]}, *records)


def messages(count: int, *names: str, inside: bool = False) -> RegisteredSchema:
    """Each message has the next one in a field of each of the names. ``inside``: in a message that doesn't use them."""
    kinds = [DescriptorProto(name=f"A{n}") for n in range(count)]
    for n, kind in enumerate(kinds[:-1], 1):
        for number, name in enumerate(names, 1):
            of = f".Around.A{n}" if inside else f".A{n}"
            kind.field.add(name=name, number=number, type=FieldDescriptorProto.TYPE_MESSAGE, label=1, type_name=of)
    kinds[-1].field.add(name="x", number=1, type=FieldDescriptorProto.TYPE_INT32, label=1)
    around = [DescriptorProto(name="Around", nested_type=kinds)] if inside else kinds
    file = FileDescriptorProto(name="p.proto", syntax="proto3", message_type=around)
    return RegisteredSchema("protobuf", base64.b64encode(file.SerializeToString()).decode())


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        (doubled(30), MANY),
        (avro({"type": "record", "name": "R", "fields": [{**INT, "name": f"x{n}"} for n in range(10_000)]}), MANY),
        (chained(250), DEEP),
        (chained(3_000), DEEP),
        (messages(40, "a", "b"), MANY),
        (messages(250, "a"), DEEP),
        (messages(3_000, "a"), DEEP),
    ],
    ids=["doubled", "wide", "deep", "very deep", "doubled messages", "deep messages", "very deep messages"],
)
def test_a_schema_that_stands_for_too_many_types_is_refused(schema: RegisteredSchema, says: str) -> None:
    for read in (avro_reader if schema.format == "avro" else protobuf_reader, shape_of):
        with pytest.raises(ValueError, match=says):
            read(schema)


def test_what_is_large_and_not_too_large_is_read() -> None:
    assert len(shape_of(doubled(9)).node["properties"]) == 2
    assert encode(avro_reader(chained(120)).read(b"\x02" * 120, 0, "a test")).startswith(b'{"all":{"x":1,"a":{"x":1,')
    wide = [{"name": f"x{n}", "type": ["null", "int"]} for n in range(9_999)]
    assert len(shape_of(avro({"type": "record", "name": "R", "fields": wide})).node["properties"]) == 9_999
    assert len(shape_of(messages(10, "a", "b")).node["properties"]) == 2
    assert protobuf_reader(messages(150, "a")).read(b"\x00", 0, "a test") == {}


def test_a_message_inside_of_others_is_held_to_the_same_when_a_record_names_it() -> None:
    first_in_first = b"\x04\x00\x00"
    assert protobuf_reader(messages(5, "a", "b", inside=True)).read(first_in_first, 0, "a test") == {}
    with pytest.raises(Undecodable, match=f"not_protobuf: it has {MANY}"):
        protobuf_reader(messages(40, "a", "b", inside=True)).read(first_in_first, 0, "a test")


def test_types_that_only_references_use_are_read_as_all_others_are() -> None:
    price = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
    inner = {"type": "record", "name": "Inner", "fields": [{"name": "price", "type": price}]}
    outer = {"type": "record", "name": "Outer", "fields": [{"name": "inner", "type": "Inner"}]}
    schema = avro({"type": "record", "name": "R", "fields": [{"name": "o", "type": "Outer"}]}, inner, outer)
    assert encode(avro_reader(schema).read(b"\x04\x01\x02", 0, "a test")) == b'{"o":{"inner":{"price":2.58}}}'
    assert shape_of(schema).node["properties"]["o"]["properties"]["inner"]["required"] == ["price"]


def test_a_type_of_a_reference_that_contains_itself_is_refused() -> None:
    inner = {"type": "record", "name": "B", "fields": [{"name": "a", "type": ["null", "A"]}]}
    outer = {"type": "record", "name": "A", "fields": [{"name": "b", "type": ["null", inner]}]}
    schema = avro({"type": "record", "name": "R", "fields": [{"name": "b", "type": "B"}]}, outer)
    with pytest.raises(ValueError, match="A contains itself, which no column can hold"):
        avro_reader(schema)


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": None}, "precision is 4 and scale None"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": ""}, "precision is 4 and scale ''"),
        ({"type": "bytes", "logicalType": "decimal", "precision": None}, "precision is None and scale 0"),
        ({"type": "array", "items": {"type": "fixed", "name": "F", "size": None}}, "F: its size is None"),
        ({"type": "fixed", "name": "F", "size": -1}, "F: its size is -1, which is no number of bytes"),
        ({"type": "record", "name": "Q", "fields": [{"name": 5, "type": "int"}]}, "Q: 5 is no name of a field"),
    ],
)
def test_what_a_schema_says_in_another_type_is_named(kind: Any, says: str) -> None:
    schema = avro({"type": "record", "name": "R", "fields": [{"name": "a", "type": kind}]})
    for read in (avro_reader, shape_of):
        with pytest.raises(ValueError, match=says):
            read(schema)


@pytest.mark.parametrize("logical", [["x"], {"x": 1}, None, 5])
def test_a_logical_type_that_is_no_name_is_ignored_as_an_unknown_one(logical: Any) -> None:
    schema = avro(
        {"type": "record", "name": "R", "fields": [{"name": "a", "type": {"type": "long", "logicalType": logical}}]}
    )
    assert shape_of(schema).node["properties"] == {"a": {"type": "integer"}}
    assert encode(avro_reader(schema).read(b"\x02", 0, "a test")) == b'{"a":1}'
