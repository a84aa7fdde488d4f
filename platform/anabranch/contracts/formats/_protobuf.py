"""Decodes messages of Protobuf with Google's library, and writes them as JSON documents.

Fields have the names of the schema. Integers are numbers whatever their size, enums the names of their values, bytes
base64, timestamps RFC 3339 texts, wrapped values the values. A field without presence (proto3) has its default where it
isn't set; one with presence, and a message, is missing. Fields that the schema doesn't know are left out.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final

from google.protobuf import (
    any_pb2,
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    json_format,
    message_factory,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)
from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor
from google.protobuf.message import DecodeError, Message

from anabranch.contracts.fields.registered_schema import RegisteredSchema
from anabranch.contracts.formats._document import Undecodable, finite
from anabranch.contracts.formats._extent import TOO_DEEP, Extent, extent_of
from anabranch.contracts.formats.wire_format import message_path

Write = Callable[[Any], Any]
_START: Final = datetime(1970, 1, 1, tzinfo=UTC)
_KNOWN: Final = {
    module.DESCRIPTOR.name: module.DESCRIPTOR.serialized_pb
    for module in (
        any_pb2, descriptor_pb2, duration_pb2, empty_pb2, field_mask_pb2, struct_pb2, timestamp_pb2, wrappers_pb2
    )
}  # fmt: skip
_WRAPPERS: Final = frozenset(
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
_OWN_JSON: Final = frozenset(
    f"google.protobuf.{name}" for name in ("Struct", "Value", "ListValue", "Any", "Duration", "FieldMask", "Empty")
)
"""Messages whose JSON the standard describes, besides timestamps and wrappers."""


class ProtobufReader:
    """Reads the records of one schema. Raises ValueError as ``descriptors``."""

    def __init__(self, schema: RegisteredSchema) -> None:
        self._file = descriptors(schema)
        self._kinds: dict[tuple[int, ...], tuple[type[Any], Write]] = {}

    def read(self, value: bytes, begin: int, of: str) -> Any:
        """What ``encode`` makes the JSON document of, for the message whose path in the schema begins at ``begin``.
        Raises Undecodable; ``of`` names the schema in its text."""
        path, begin = message_path(value, begin)
        if (kind := self._kinds.get(path)) is None:
            described = _message_type(self._file, path)
            try:
                _check_all([described])  # one inside of others needn't be part of them
            except ValueError as error:
                raise Undecodable(f"not_protobuf: {error} ({of})") from None
            kind = self._kinds[path] = message_factory.GetMessageClass(described), _message(described, "data")
        message = kind[0]()
        try:
            message.ParseFromString(value[begin:])
        except DecodeError as error:
            raise Undecodable(f"not_protobuf: {error} ({of})") from None
        if not message.IsInitialized():
            missing = ", ".join(message.FindInitializationErrors()[:3])
            raise Undecodable(f"not_protobuf: required fields are missing: {missing} ({of})")
        try:
            return kind[1](message)
        except Undecodable:
            raise
        except UnicodeDecodeError:  # the library's, of a map whose keys aren't UTF-8
            raise Undecodable(f"not_utf8: a text in it is no UTF-8 ({of})") from None
        except Exception as error:  # whatever the library makes of a value that it has parsed
            raise Undecodable(f"not_protobuf: it can't be read: {type(error).__name__}: {error} ({of})") from None


@lru_cache(maxsize=256)
def protobuf_reader(schema: RegisteredSchema) -> ProtobufReader:
    """The reader of a schema; one for each in a process."""
    return ProtobufReader(schema)


def compiled_schema(content: bytes) -> RegisteredSchema:
    """The schema in a file that ``protoc --include_imports --descriptor_set_out`` has written: that of its last file.
    Raises ValueError."""
    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(content).file
    except DecodeError as error:
        raise ValueError(f"it is no set of Protobuf descriptors: {error}") from None
    if not files:
        raise ValueError("it holds no file")
    *used, schema = ((file.name, base64.b64encode(file.SerializeToString()).decode()) for file in files)
    return RegisteredSchema("protobuf", schema[1], tuple(each for each in used if each[0] not in _KNOWN))


def descriptors(schema: RegisteredSchema) -> FileDescriptor:
    """The schema's file. Raises ValueError if it is none, or if a message contains itself or is very large."""
    pool = descriptor_pool.DescriptorPool()
    try:
        for name, text in (*schema.references, ("schema.proto", schema.text)):
            file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text))
            file.name = name
            _add_known(pool, file)
            pool.Add(file)
        found = pool.FindFileByName("schema.proto")
    except Exception as error:  # whatever the library makes of it
        raise ValueError(f"it is no Protobuf schema: {type(error).__name__}: {error}") from None
    _check_all(found.message_types_by_name.values())
    return found


def _add_known(pool: descriptor_pool.DescriptorPool, file: descriptor_pb2.FileDescriptorProto) -> None:
    """Add the files of Google's own types that ``file`` imports; registries don't hold them."""
    for name in file.dependency:
        if name in _KNOWN:
            known = descriptor_pb2.FileDescriptorProto.FromString(_KNOWN[name])
            _add_known(pool, known)
            pool.Add(known)


def _check_all(kinds: Iterable[Descriptor]) -> None:
    """Raises ValueError for a message that can't be read."""
    known: dict[str, Extent | None] = {}
    try:
        for kind in kinds:
            _check(kind, known)
    except RecursionError:
        raise ValueError(TOO_DEEP) from None


def _check(kind: Descriptor, known: dict[str, Extent | None]) -> Extent:
    """The extent of a message. ``known``: those of messages by their names, None for those around this one: each is
    looked at once."""
    if kind.full_name in _OWN_JSON:
        return Extent()
    if (found := known.get(kind.full_name)) is not None:
        return found
    if kind.full_name in known:
        raise ValueError(f"{kind.full_name} contains itself, which no column can hold")
    known[kind.full_name] = None
    names = [field.name for field in kind.fields]
    if len({name.lower() for name in names}) < len(names):
        raise ValueError(f"{kind.full_name}: fields differ only in upper and lower case, which engines can't")
    inner = (field.message_type for field in kind.fields)
    found = known[kind.full_name] = extent_of(Extent() if each is None else _check(each, known) for each in inner)
    return found


def _message_type(file: FileDescriptor, path: tuple[int, ...]) -> Descriptor:
    kinds = list(file.message_types_by_name.values())
    found: Descriptor | None = None
    for step in path:
        if not 0 <= step < len(kinds):
            raise Undecodable(f"not_protobuf: the schema has no message {list(path)}")
        found = kinds[step]
        kinds = list(found.nested_types)
    assert found is not None  # noqa: S101 - a path has a step
    return found


def _message(kind: Descriptor, path: str) -> Write:
    match kind.full_name:
        case "google.protobuf.Timestamp":
            return lambda message: _moment(message, path)
        case name if name in _WRAPPERS:
            value = _value(kind.fields_by_name["value"], path)
            return lambda message: value(message.value)
        case name if name in _OWN_JSON:
            return lambda message: _own_json(message, path)
    fields = [(field.name, field.has_presence, _field(field, f"{path}.{field.name}")) for field in kind.fields]

    def write(message: Message) -> dict[str, Any]:
        return {
            name: one(getattr(message, name))
            for name, has_presence, one in fields
            if not has_presence or message.HasField(name)
        }

    return write


def _field(field: FieldDescriptor, path: str) -> Write:
    kind = field.message_type
    if kind is not None and kind.GetOptions().map_entry:
        value = _value(kind.fields_by_name["value"], f"{path}.*")
        return lambda found: {_map_key(key): value(each) for key, each in found.items()}
    value = _value(field, path)
    return (lambda found: [value(each) for each in found]) if field.is_repeated else value


def _map_key(key: Any) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)


def _value(field: FieldDescriptor, path: str) -> Write:
    match field.cpp_type:
        case FieldDescriptor.CPPTYPE_MESSAGE:
            return _message(field.message_type, path)
        case FieldDescriptor.CPPTYPE_FLOAT | FieldDescriptor.CPPTYPE_DOUBLE:
            return lambda value: finite(value, path)
        case FieldDescriptor.CPPTYPE_ENUM:
            names = {each.number: each.name for each in field.enum_type.values}
            return lambda value: names.get(value, value)
        case FieldDescriptor.CPPTYPE_STRING if field.type == FieldDescriptor.TYPE_STRING:
            return lambda value: _text(value, path)
        case _:
            return _same  # msgspec writes bytes in base64


def _same(value: Any) -> Any:
    return value


def _text(value: Any, path: str) -> str:
    """The text. Of proto2 the library doesn't check texts: it gives one that is no UTF-8 as its bytes."""
    if isinstance(value, str):
        return value
    raise Undecodable(f"not_utf8: {path} is no UTF-8 text")


def _moment(message: Any, path: str) -> datetime:
    try:
        return _START + timedelta(seconds=message.seconds, microseconds=message.nanos // 1_000)
    except OverflowError:
        raise Undecodable(f"no_time: {path} is {message.seconds} seconds since 1970, outside of 1 to 9999") from None


def _own_json(message: Message, path: str) -> Any:
    try:
        return json_format.MessageToDict(message)
    except Exception as error:  # whatever the library makes of it
        raise Undecodable(f"not_protobuf: {path} has no JSON: {type(error).__name__}: {error}") from None
