"""Records with maps in Avro and Protobuf, made by the libraries of their producers without a line of the platform."""

from __future__ import annotations

from typing import Any

SHELF_SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Shelf",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "labels", "type": {"type": "map", "values": "string"}},
        {"name": "counts", "type": {"type": "map", "values": ["null", "long"]}},
        {
            "name": "prices",
            "type": {
                "type": "map",
                "values": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2},
            },
        },
        {"name": "seen", "type": {"type": "map", "values": {"type": "long", "logicalType": "timestamp-millis"}}},
        {"name": "shares", "type": {"type": "map", "values": "double"}},
        {
            "name": "boxes",
            "type": {
                "type": "map",
                "values": {
                    "type": "record",
                    "name": "Box",
                    "fields": [
                        {"name": "size_x", "type": "int"},
                        {"name": "tags", "type": {"type": "map", "values": "string"}},
                    ],
                },
            },
        },
    ],
}


def protobuf_shelf(*, messages: bool = True) -> type[Any]:
    """The class of a message ``shop.Shelf`` with maps, as protoc would generate it; ``messages``: also maps of them."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="shop/shelf.proto", package="shop", syntax="proto3", dependency=[timestamp_pb2.DESCRIPTOR.name]
    )
    shelf = file.message_type.add(name="Shelf")
    box = shelf.nested_type.add(name="Box")
    box.field.add(name="size_x", number=1, type=kinds.TYPE_INT32, label=1)
    _add_map(box, ".shop.Shelf.Box", 2, "tags", kinds.TYPE_STRING, kinds.TYPE_STRING)
    shelf.field.add(name="id", number=1, type=kinds.TYPE_STRING, label=1)
    _add_map(shelf, ".shop.Shelf", 2, "labels", kinds.TYPE_STRING, kinds.TYPE_STRING)
    _add_map(shelf, ".shop.Shelf", 3, "counts", kinds.TYPE_INT32, kinds.TYPE_INT64)
    _add_map(shelf, ".shop.Shelf", 4, "flags", kinds.TYPE_BOOL, kinds.TYPE_BOOL)
    _add_map(shelf, ".shop.Shelf", 5, "shares", kinds.TYPE_STRING, kinds.TYPE_DOUBLE)
    if messages:
        _add_map(shelf, ".shop.Shelf", 6, "seen", kinds.TYPE_STRING, kinds.TYPE_MESSAGE, ".google.protobuf.Timestamp")
        _add_map(shelf, ".shop.Shelf", 7, "boxes", kinds.TYPE_UINT64, kinds.TYPE_MESSAGE, ".shop.Shelf.Box")
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    found: type[Any] = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Shelf"))
    return found


def _add_map(message: Any, path: str, number: int, name: str, key: Any, value: Any, type_name: str = "") -> None:
    """A map in Protobuf is a repeated message of pairs."""
    entry = message.nested_type.add(name=f"{name.title()}Entry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=key, label=1)
    entry.field.add(name="value", number=2, type=value, label=1, type_name=type_name or None)
    kinds = type(message).DESCRIPTOR.fields_by_name["field"].message_type.enum_types_by_name["Type"]
    repeated = kinds.values_by_name["TYPE_MESSAGE"].number
    message.field.add(name=name, number=number, type=repeated, label=3, type_name=f"{path}.{name.title()}Entry")
