"""JSON documents of records in binary formats.

Decimals are numbers with all their digits, times are RFC 3339 to the microsecond (local ones without an offset), dates
and times of day ISO 8601, UUIDs and enums texts, bytes base64. JSON has no NaN and no infinity: a record that holds one
is refused.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import msgspec

_DECIMAL_BYTES: Final = 64
_ENCODER: Final = msgspec.json.Encoder()


class Undecodable(ValueError):
    """A record that isn't what its topic declares. The text is a reason of quarantine: ``not_avro: ...``."""


class UnknownSchema(Undecodable):
    """A record that names a schema which isn't known here."""

    def __init__(self, schema_id: int) -> None:
        super().__init__(f"unknown_schema: id {schema_id} isn't known to the schema registry")


def encode(document: Any) -> bytes:
    """The JSON text of a document whose decimals and floats are made by the next functions."""
    return _ENCODER.encode(document)


def decimal_number(value: bytes, scale: int, path: str) -> msgspec.Raw:
    """A decimal, as Avro stores its digits, as a number with all of them: an exponent would be refused. Raises
    Undecodable for one that no engine could hold."""
    if len(value) > _DECIMAL_BYTES:
        raise Undecodable(f"too_long: {path} is a decimal of {len(value)} bytes, over {_DECIMAL_BYTES}")
    unscaled = int.from_bytes(value, "big", signed=True)
    digits = str(abs(unscaled)).rjust(scale + 1, "0")
    whole, fraction = (digits[:-scale], digits[-scale:]) if scale else (digits, "")
    return msgspec.Raw(f"{'-' if unscaled < 0 else ''}{whole}{'.' if scale else ''}{fraction}".encode())


def finite(value: float, path: str) -> float:
    """The value. Raises Undecodable if JSON has no such number."""
    if math.isfinite(value):
        return value
    raise Undecodable(f"not_finite: {path} is {value}, which is no number")


def all_finite(value: Any, path: str) -> Any:
    """The same for everything in a value."""
    if isinstance(value, float):
        return finite(value, path)
    if isinstance(value, Mapping):
        return {name: all_finite(each, f"{path}.{name}") for name, each in value.items()}
    if isinstance(value, list):
        return [all_finite(each, f"{path}[{n}]") for n, each in enumerate(value)]
    return value
