"""The reader of a topic's records, by its declared format."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any, TypeAlias

from anabranch.contracts import Avro, Protobuf, Raw, formats
from anabranch.contracts.fields.registered_schema import RegisteredSchema, Schemas
from anabranch.contracts.formats import HEAD, Undecodable, UnknownSchema, schema_id
from anabranch.contracts.model.records import Records

Reader: TypeAlias = Callable[[bytes], Any]
"""A record's value as a dictionary, which ``encode`` writes as JSON. Raises Undecodable."""


def reader_of(records: Records) -> Reader:
    """The reader of a format other than JSON. Raises TypeError for JSON, ValueError if the schema of the topic is none,
    and RuntimeError if the schemas of a registry weren't filled in: all records would be taken for unreadable."""
    match records:
        case Raw(form="text"):
            return _text
        case Raw():
            return _bytes
        case Avro(schema=str(text)) if text:
            return _decoder(RegisteredSchema("avro", text), 0, "by the schema of the topic")
        case Avro() | Protobuf():
            if records.schemas is None:
                raise RuntimeError("the known schemas weren't filled in: use schema_registry.with_schemas")
            return _by_schema_id(records.schemas, "avro" if isinstance(records, Avro) else "protobuf")
        case _:
            raise TypeError(f"{type(records).__name__} is read by the engine")


def _text(value: bytes) -> dict[str, str]:
    try:
        return {"text": value.decode()}
    except UnicodeDecodeError as error:
        raise Undecodable(f"not_utf8: byte {error.start} is no UTF-8") from None


def _bytes(value: bytes) -> dict[str, str]:
    return {"base64": base64.b64encode(value).decode()}


def _by_schema_id(schemas: Schemas, format_: str) -> Reader:
    known: dict[int, Reader] = {}

    def read(value: bytes) -> Any:
        number = schema_id(value)
        if (reader := known.get(number)) is None:
            reader = known[number] = _registered(number, schemas, format_)
        return reader(value)

    return read


def _registered(number: int, schemas: Schemas, format_: str) -> Reader:
    """The reader of the records that name this schema. Raises UnknownSchema."""
    schema = schemas.get(number)
    if schema is None:
        raise UnknownSchema(number)
    if schema.format != format_:
        return _refusal(f"other_format: schema id {number} is one of {schema.format}, the topic's are of {format_}")
    try:
        return _decoder(schema, HEAD, f"schema id {number}")
    except ValueError as error:
        return _refusal(f"unread_schema: id {number}: {error}")


def _decoder(schema: RegisteredSchema, begin: int, of: str) -> Reader:
    """Reads values from the byte ``begin`` on. Raises ValueError for what is no schema, or one that can't be read."""
    decoder = formats.avro_reader(schema) if schema.format == "avro" else formats.protobuf_reader(schema)
    return lambda value: decoder.read(value, begin, of)


def _refusal(reason: str) -> Reader:
    def refuse(_: bytes) -> Any:
        raise Undecodable(reason)

    return refuse
