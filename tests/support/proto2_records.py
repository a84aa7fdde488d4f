"""A proto2 schema, whose texts Google's library doesn't check, and its records byte by byte."""

from __future__ import annotations

import base64

from anabranch.contracts.fields.registered_schema import RegisteredSchema
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto

NO_UTF8 = "Zürich".encode("latin-1")
_TEXT, _ONE, _MANY = FieldDescriptorProto.TYPE_STRING, FieldDescriptorProto.LABEL_OPTIONAL, 3


def proto2_schema() -> RegisteredSchema:
    """``id`` = 1, ``note`` = 2, ``labels`` = 3 (a map of texts), ``tags`` = 4 (repeated), ``raw`` = 5 (bytes)."""
    file = FileDescriptorProto(name="things.proto", package="things", syntax="proto2")
    thing = file.message_type.add(name="Thing")
    for number, (name, label) in enumerate({"id": _ONE, "note": _ONE, "labels": _MANY, "tags": _MANY}.items(), 1):
        field = thing.field.add(name=name, number=number, type=_TEXT, label=label)
        if name == "labels":
            field.type, field.type_name = FieldDescriptorProto.TYPE_MESSAGE, ".things.Thing.LabelsEntry"
    thing.field.add(name="raw", number=5, type=FieldDescriptorProto.TYPE_BYTES, label=_ONE)
    entry = thing.nested_type.add(name="LabelsEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=_TEXT, label=_ONE)
    entry.field.add(name="value", number=2, type=_TEXT, label=_ONE)
    return RegisteredSchema("protobuf", base64.b64encode(file.SerializeToString()).decode())


def field(number: int, content: bytes) -> bytes:
    """A field with a length, of less than 128 bytes."""
    return bytes([number << 3 | 2, len(content)]) + content


def label(key: bytes, value: bytes) -> bytes:
    return field(3, field(1, key) + field(2, value))
