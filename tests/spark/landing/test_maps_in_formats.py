"""Maps in Avro and Protobuf: what becomes of each record, with its reason, and what the columns hold."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from anabranch.contracts import Avro, Contract, Protobuf, Record, Topic
from anabranch.contracts.fields.registered_schema import RegisteredSchema
from google.protobuf import descriptor_pb2
from support.avro_records import avro, in_wire_format, text
from support.map_records import SHELF_SCHEMA, protobuf_shelf
from support.proto2_records import NO_UTF8, field, label, proto2_schema
from support.things_topic import decided, unexpected

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
NOON = datetime(2020, 1, 1, 12, tzinfo=UTC)
BOX = {
    "type": "object",
    "properties": {
        "width": {"type": "integer", "sent_as": "size_x"},
        "tags": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}


def a_map(**values: Any) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": values}


def contract(**fields: Any) -> Contract:
    return Contract("shelf.counted", 1, {"type": "object", "properties": {"id": {"type": "string"}, **fields}})


COMMON = {
    "labels": a_map(type="string"),
    "counts": a_map(type="integer"),
    "seen": a_map(type="string", format="date-time"),
    "shares": a_map(type="number"),
    "boxes": a_map(**BOX),
}
MONEY = a_map(type="number", format="decimal", precision=6, scale=2)
AVRO = Topic(
    "shelves",
    (contract(prices=MONEY, **COMMON),),
    records=Avro(id="id", time=Record.APPEND_TIME, schemas={3: RegisteredSchema("avro", text(SHELF_SCHEMA))}),
)
SHELF: dict[str, Any] = {
    "id": "s-1",
    "labels": {"north": "12", "": "true"},
    "counts": {"a": -(2**63), "b": 2**63 - 1},
    "prices": {"x": Decimal("1234.50")},
    "seen": {"first": NOON},
    "shares": {"a": 0.1},
    "boxes": {"b-1": {"size_x": 3, "tags": {"colour": "red"}}},
}


def test_maps_of_avro(spark: SparkSession) -> None:
    one = avro({**SHELF, "labels": {"k": "first"}, "counts": {}}, SHELF_SCHEMA)
    pair = b"\x02\x02k\x0afirst"
    assert pair in one
    twice = one.replace(pair, b"\x02\x02k\x0afirst\x02\x02k\x08last", 1)
    values = {
        "good": avro(SHELF, SHELF_SCHEMA),
        "empty": avro({**SHELF, **{name: {} for name in SHELF if name != "id"}}, SHELF_SCHEMA),
        "a key twice": twice,
        "a null": avro({**SHELF, "counts": {"a": 1, "north": None}}, SHELF_SCHEMA),
        "too many digits": avro({**SHELF, "prices": {"x": Decimal("12345.00")}}, SHELF_SCHEMA),
        "NaN": avro({**SHELF, "shares": {"a": float("nan")}}, SHELF_SCHEMA),
        "cut off": avro(SHELF, SHELF_SCHEMA)[:40],
    }
    rows = decided(spark, {name: in_wire_format(3, value) for name, value in values.items()}, AVRO)
    assert (
        unexpected(
            rows,
            {
                "good": None,
                "empty": None,
                "a key twice": None,
                "a null": "contract: data.counts['north'] is null",
                "too many digits": "contract: data.prices['x'] is no decimal(6,2)",
                "NaN": "not_finite: data.shares.* is nan",
                "cut off": "not_avro",
            },
        )
        == {}
    )
    landed = rows["good"]["shelf_counted"]
    assert {name: value if name == "id" else dict(value) for name, value in landed.items() if name != "boxes"} == {
        name: value for name, value in SHELF.items() if name != "boxes"
    }
    assert landed["boxes"] == [("b-1", {"width": 3, "tags": [("colour", "red")]})]
    assert rows["empty"]["shelf_counted"]["labels"] == []
    # Avro's specification doesn't say which pair of a key counts: for fastavro, which reads it everywhere, the last.
    assert rows["a key twice"]["shelf_counted"]["labels"] == [("k", "last")]


def test_maps_of_protobuf(spark: SparkSession) -> None:
    kind = protobuf_shelf()
    file = descriptor_pb2.FileDescriptorProto()
    kind.DESCRIPTOR.file.CopyToProto(file)
    schemas = {9: RegisteredSchema("protobuf", base64.b64encode(file.SerializeToString()).decode())}
    topic = Topic(
        "shelves",
        (contract(flags=a_map(type="boolean"), **COMMON),),
        records=Protobuf(id="id", time=Record.APPEND_TIME, schemas=schemas),
    )
    shelf = kind(id="s-1", labels={"north": "12"}, counts={-1: 2**62, 7: 0}, flags={True: False}, shares={"a": 0.1})
    shelf.seen["first"].FromDatetime(NOON)
    shelf.boxes[2**63].tags["colour"] = "red"
    both = (kind(labels={"k": "first"}), kind(id="s-2", labels={"k": "last"}))
    values = {
        "good": shelf.SerializeToString(),
        "empty": kind(id="s-3").SerializeToString(),
        "a key twice": b"".join(each.SerializeToString() for each in both),
        "infinite": kind(id="s-4", shares={"a": float("inf")}).SerializeToString(),
    }
    rows = decided(spark, {name: in_wire_format(9, b"\x00" + value) for name, value in values.items()}, topic)
    reasons = {"good": None, "empty": None, "a key twice": None, "infinite": "not_finite: data.shares.* is inf"}
    assert unexpected(rows, reasons) == {}
    landed = rows["good"]["shelf_counted"]
    assert {name: dict(value) for name, value in landed.items() if name not in ("id", "boxes")} == {
        "labels": {"north": "12"},
        "counts": {"-1": 2**62, "7": 0},
        "flags": {"true": False},
        "shares": {"a": 0.1},
        "seen": {"first": NOON},
    }
    assert landed["boxes"] == [(str(2**63), {"width": 0, "tags": [("colour", "red")]})]
    assert rows["empty"]["shelf_counted"]["labels"] == []
    assert rows["a key twice"]["shelf_counted"]["labels"] == [("k", "last")]


@pytest.mark.parametrize("fast", [True, False], ids=["into columns", "by JSON, with a map"])
def test_texts_of_proto2_that_are_no_utf8_are_quarantined_beside_good_records(spark: SparkSession, fast: bool) -> None:
    fields: dict[str, Any] = {"note": {"type": "string"}, **({} if fast else {"labels": a_map(type="string")})}
    records = Protobuf(id="id", time=Record.APPEND_TIME, schemas={9: proto2_schema()})
    values = {
        "good": field(1, b"s-1") + field(2, b"Zurich") + label(b"a", b"b"),
        "a text": field(1, b"s-2") + field(2, NO_UTF8),
        "a key": field(1, b"s-3") + label(NO_UTF8, b"b"),
        "a value": field(1, b"s-4") + label(b"a", NO_UTF8),
    }
    wired = {name: in_wire_format(9, b"\x00" + value) for name, value in values.items()}
    rows = decided(spark, wired, Topic("shelves", (contract(**fields),), records=records), fast=fast)
    reasons = {"good": None, "a text": "not_utf8", "a key": "not_utf8", "a value": "not_utf8"}
    assert unexpected(rows, reasons) == {}
    assert rows["good"]["shelf_counted"]["note"] == "Zurich"
