"""Records in Avro and Protobuf, made by the libraries of their producers without a line of the platform."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any

import fastavro

ORDER_SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "orderId", "type": "string"},
        {"name": "customer", "type": ["null", "string"], "default": None},
        {"name": "total", "type": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}},
        {"name": "placedAt", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "lines", "type": "int"},
        {"name": "weight", "type": ["null", "double"], "default": None},
        {"name": "country", "type": {"type": "enum", "name": "Country", "symbols": ["DE", "FR", "US"]}},
        {"name": "tags", "type": {"type": "array", "items": "string"}, "default": []},
    ],
}


def avro(value: Mapping[str, Any], schema: Mapping[str, Any] = ORDER_SCHEMA) -> bytes:
    """The value in Avro's binary encoding, without anything in front of it."""
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(dict(schema)), dict(value))
    return stream.getvalue()


def in_wire_format(schema_id: int, value: bytes) -> bytes:
    """As Confluent's serializers send it."""
    return b"\x00" + schema_id.to_bytes(4, "big") + value


def text(schema: Mapping[str, Any]) -> str:
    return json.dumps(schema)


def protobuf_order() -> type[Any]:
    """The class of a message ``shop.Order``, as protoc would generate it."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="shop/order.proto", package="shop", syntax="proto3", dependency=[timestamp_pb2.DESCRIPTOR.name]
    )
    # The first message is not the one that is sent: the path in the wire format says which one is.
    file.message_type.add(name="Unused").field.add(name="x", number=1, type=kinds.TYPE_INT32, label=1)
    order = file.message_type.add(name="Order")
    country = order.enum_type.add(name="Country")
    for number, name in enumerate(("DE", "FR", "US")):
        country.value.add(name=name, number=number)
    line = order.nested_type.add(name="Line")
    line.field.add(name="sku", number=1, type=kinds.TYPE_STRING, label=1)
    line.field.add(name="cents", number=2, type=kinds.TYPE_INT64, label=1)
    for number, (name, kind, type_name) in enumerate(
        (
            ("order_id", kinds.TYPE_STRING, ""),
            ("placed_at", kinds.TYPE_MESSAGE, ".google.protobuf.Timestamp"),
            ("country", kinds.TYPE_ENUM, ".shop.Order.Country"),
            ("cents", kinds.TYPE_INT64, ""),
        ),
        1,
    ):
        order.field.add(name=name, number=number, type=kind, label=1, type_name=type_name or None)
    order.field.add(name="lines", number=5, type=kinds.TYPE_MESSAGE, label=3, type_name=".shop.Order.Line")
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    found: type[Any] = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))
    return found
