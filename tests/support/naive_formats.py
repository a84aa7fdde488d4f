"""Avro and Protobuf read byte by byte, as their specifications say, without a library and without the platform.

Each function returns the record as Python has it, or None if it can't be read.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Broken(Exception):
    """The bytes aren't what they should be."""


class Bytes:
    """Bytes, and how far they are read."""

    def __init__(self, value: bytes) -> None:
        self.value, self.at = value, 0

    def take(self, count: int) -> bytes:
        if count < 0 or self.at + count > len(self.value):
            raise Broken
        self.at += count
        return self.value[self.at - count : self.at]

    def varint(self) -> int:
        found = 0
        for place in range(10):
            (byte,) = self.take(1)
            found |= (byte & 0x7F) << 7 * place
            if byte < 0x80:
                return found & (2**64 - 1)
        raise Broken

    @property
    def left(self) -> bool:
        return self.at < len(self.value)


def avro(value: bytes, schema: Any) -> dict[str, Any] | None:
    source = Bytes(value)
    try:
        found = _avro(source, schema)
    except (Broken, OverflowError, UnicodeDecodeError):
        return None
    return found if not source.left and isinstance(found, dict) else None


def _long(source: Bytes) -> int:
    number = source.varint()
    return (number >> 1) ^ -(number & 1)


def _avro(source: Bytes, schema: Any) -> Any:
    if isinstance(schema, list):
        branch = _long(source)
        if not 0 <= branch < len(schema):
            raise Broken
        return _avro(source, schema[branch])
    kind = schema if isinstance(schema, str) else schema["type"]
    match kind:
        case "null":
            return None
        case "record":
            return {field["name"]: _avro(source, field["type"]) for field in schema["fields"]}
        case "array":
            return list(_items(source, lambda: _avro(source, schema["items"])))
        case "map":
            pairs = _items(source, lambda: (source.take(_long(source)).decode(), _avro(source, schema["values"])))
            return dict(pairs)
        case "enum":
            place = _long(source)
            if not 0 <= place < len(schema["symbols"]):
                raise Broken
            return schema["symbols"][place]
        case "int" | "long":
            number = _long(source)
            millis = isinstance(schema, Mapping) and schema.get("logicalType") == "timestamp-millis"
            return EPOCH + timedelta(milliseconds=number) if millis else number
        case "double":
            (number,) = struct.unpack("<d", source.take(8))
            if number != number or abs(number) == float("inf"):
                raise Broken
            return number
        case "string":
            return source.take(_long(source)).decode()
        case "bytes":
            digits = source.take(_long(source))
            if len(digits) > 64:
                raise Broken
            return Decimal(int.from_bytes(digits, "big", signed=True)).scaleb(-schema["scale"])
    raise AssertionError(kind)


def _items(source: Bytes, read: Callable[[], Any]) -> Iterator[Any]:
    while (count := _long(source)) != 0:
        if count < 0:
            _long(source)
        for _ in range(abs(count)):
            yield read()


def protobuf(value: bytes, fields: Mapping[int, tuple[str, Any]]) -> dict[str, Any] | None:
    """``fields``: name and type by number. Types: str, int, "int32", bool, float, ``Enum`` names as a list, "time",
    [fields] of a repeated message, or the types of a map's keys and values as a tuple."""
    try:
        return _message(Bytes(value), fields)
    except (Broken, OverflowError, UnicodeDecodeError):
        return None


def _message(source: Bytes, fields: Mapping[int, tuple[str, Any]], others: list[int] | None = None) -> dict[str, Any]:
    """``others`` gets the numbers of fields that aren't known."""
    found: dict[str, Any] = {name: _default(kind) for name, kind in fields.values()}
    times: dict[str, list[int]] = {}
    while source.left:
        tag = source.varint()
        number, wire = tag >> 3, tag & 7
        if number == 0 or tag >= 2**32:
            raise Broken
        content = _content(source, number, wire)
        name, kind = fields.get(number, ("", None))
        if kind is int and wire == 0:
            found[name] = content - 2**64 if content >= 2**63 else content
        elif kind == "int32" and wire == 0:
            low = content & (2**32 - 1)
            found[name] = low - 2**32 if low >= 2**31 else low
        elif kind is bool and wire == 0:
            found[name] = content != 0
        elif kind is float and wire == 1:
            (found[name],) = struct.unpack("<d", content)
        elif isinstance(kind, tuple) and wire == 2:
            more: list[int] = []
            pair = _message(Bytes(content), {1: ("key", kind[0]), 2: ("value", kind[1])}, more)
            key = str(pair["key"]).lower() if kind[0] is bool else str(pair["key"])
            # Google's library takes a pair with more than a key and a value for an unknown field.
            found[name] = found[name] if more else {**found[name], key: pair["value"]}
        elif kind is str and wire == 2:
            found[name] = content.decode()
        elif isinstance(kind, list) and wire == 0:
            low = content & (2**32 - 1)
            place = low - 2**32 if low >= 2**31 else low
            found[name] = kind[place] if 0 <= place < len(kind) else place
        elif isinstance(kind, dict) and wire == 2:
            found[name] = [*found[name], _message(Bytes(content), kind)]
        elif kind == "time" and wire == 2:
            parts = times.setdefault(name, [0, 0])
            inner = Bytes(content)
            while inner.left:
                tag = inner.varint()
                if tag >> 3 == 0 or tag >= 2**32:
                    raise Broken
                part = _content(inner, tag >> 3, tag & 7)
                if tag >> 3 in (1, 2) and tag & 7 == 0:
                    bits = 64 if tag >> 3 == 1 else 32
                    part &= 2**bits - 1
                    parts[(tag >> 3) - 1] = part - 2**bits if part >= 2 ** (bits - 1) else part
        elif others is not None:
            others.append(number)
    for name, (seconds, nanos) in times.items():
        found[name] = EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1_000)
    return found


def _default(kind: Any) -> Any:
    if kind == "time":
        return None
    if isinstance(kind, tuple):
        return {}
    if kind == "int32":
        return 0
    return kind[0] if isinstance(kind, list) else [] if isinstance(kind, dict) else kind()


def _content(source: Bytes, number: int, wire: int) -> Any:
    match wire:
        case 0:
            return source.varint()
        case 1:
            return source.take(8)
        case 2:
            return source.take(source.varint())
        case 5:
            return source.take(4)
        case 3:  # a group, which nothing here has
            while True:
                tag = source.varint()
                if tag >> 3 == 0 or tag >= 2**32:
                    raise Broken
                if tag & 7 == 4:
                    if tag >> 3 != number:
                        raise Broken
                    return b""
                _content(source, tag >> 3, tag & 7)
    raise Broken
