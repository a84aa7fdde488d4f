"""Columns of Protobuf messages straight from Google's library, without a JSON text in between.

A Python function over Arrow batches reads the messages, as ``_documents`` does, and makes a column of each field of the
contract. A record with a value that such a column doesn't hold as it is isn't accepted: it is read again as all others
are (``_decode_fallback``).
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from anabranch.contracts import Protobuf, Topic
from anabranch.contracts.fields.decimals import is_decimal
from anabranch.contracts.fields.field_types import Node, is_map
from anabranch.contracts.fields.text_formats import is_bytes
from anabranch.contracts.formats import Undecodable
from anabranch.ingest.landing.decoding._decimals import decimal_in
from anabranch.ingest.landing.decoding._fast_columns import Field, UnsupportedError, fields_of, struct_of
from anabranch.ingest.landing.decoding._readers import reader_of
from anabranch.ingest.landing.decoding._renames import Renames, renamed_fields
from anabranch.ingest.landing.decoding._typed_values import of_text

_MOST_LONG: Final = 2**63
_EXACT_DOUBLE: Final = 2**53


class _DoubtError(Exception):
    """A value that the column doesn't hold as it is."""


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What is read of a value: its type in Arrow and Spark, how it is taken, and the field that it becomes."""

    arrow: pa.DataType
    ddl: str
    take: Callable[[Any], Any]
    field: Callable[[Column], Field]


def with_message_columns(records: DataFrame, topic: Topic, fields: Mapping[str, Node]) -> DataFrame | None:
    """``records`` with the columns of ``_fast_columns``; None if the topic's records aren't read this way."""
    if not isinstance(topic.records, Protobuf):
        return None
    try:
        wanted = _object({"type": "object", "properties": fields}, renamed_fields(topic), "data")
    except UnsupportedError:
        return None
    read = records.withColumn("_message", _columns(topic.records, wanted)(F.col("value")))
    data = wanted.field(F.col("_message"))
    return fields_of(read, [(F.col("_message").isNotNull() & (F.col("partition") >= 0), data)])


def _columns(records: Protobuf, wanted: _Wanted) -> Any:
    @F.arrow_udf(wanted.ddl)  # type: ignore[attr-defined,untyped-decorator]  # its stubs lack it
    def columns(values: pa.Array) -> pa.Array:
        read = reader_of(records)

        def row(value: bytes | None) -> Any:
            try:
                return None if value is None else wanted.take(read(value))
            except (Undecodable, _DoubtError):
                return None

        return pa.array([row(value) for value in values.to_pylist()], wanted.arrow)

    return columns


def _wanted(node: Node, renames: Renames, path: str) -> _Wanted:
    """Raises UnsupportedError for maps, arrays of anything but plain scalars, and decimals that are numbers."""
    kind, format_ = node["type"], node.get("format", "")
    if is_map(node) or (is_decimal(node) and kind == "number"):
        raise UnsupportedError
    if kind == "object":
        return _object(node, renames, path)
    if kind == "array":
        items = node["items"]
        if items["type"] in ("object", "array") or "format" in items or is_bytes(items):
            raise UnsupportedError
        each = _wanted(items, renames, f"{path}[]")
        return _Wanted(pa.list_(each.arrow), f"array<{each.ddl}>", lambda found: _list(found, each.take), _as_it_is)
    if (kind, format_) == ("string", "date-time"):
        both = pa.struct([("at", pa.timestamp("us", "UTC")), ("text", pa.string())])
        return _Wanted(both, "struct<at: timestamp, text: string>", _moment, lambda found: _time(found, node))
    match kind:
        case "string" if is_decimal(node):
            return _Wanted(pa.string(), "string", _text, lambda found: Field(found, decimal_in(found, node)))
        case "string":
            return _Wanted(pa.string(), "string", _text, lambda found: Field(found, of_text(found, node)))
        case "integer":
            return _Wanted(pa.int64(), "bigint", _long, _as_it_is)
        case "number":
            return _Wanted(pa.float64(), "double", _double, _as_it_is)
    return _Wanted(pa.bool_(), "boolean", _truth, _as_it_is)


def _object(node: Node, renames: Renames, path: str) -> _Wanted:
    properties = node.get("properties", {}).items()
    below = {name: _wanted(child, renames, f"{path}.{name}") for name, child in properties}
    if not below:
        raise UnsupportedError
    taken = [(name, renames.get(f"{path}.{name}", name), each.take) for name, each in below.items()]

    def take(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise _DoubtError
        found = {}
        for name, sent, one in taken:
            one_value = value.get(sent)
            found[name] = None if one_value is None else one(one_value)
        return found

    def field(value: Column) -> Field:
        return struct_of({name: each.field(value[name]) for name, each in below.items()}, value)

    arrow = pa.struct([(name, each.arrow) for name, each in below.items()])
    ddl = ", ".join(f"`{name}`: {each.ddl}" for name, each in below.items())
    return _Wanted(arrow, f"struct<{ddl}>", take, field)


def _as_it_is(found: Column) -> Field:
    return Field(found, found)


def _time(found: Column, node: Node) -> Field:
    """As it was sent it is only asked whether it is null."""
    return Field(F.when(found.isNotNull(), F.lit("")), F.coalesce(found["at"], of_text(found["text"], node)))


def _moment(value: Any) -> dict[str, Any]:
    if isinstance(value, datetime):
        return {"at": value, "text": None}
    return {"at": None, "text": _text(value)}


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if not isinstance(value, str):
        raise _DoubtError
    return value


def _long(value: Any) -> int:
    if type(value) is not int or not -_MOST_LONG <= value < _MOST_LONG:
        raise _DoubtError
    return value


def _double(value: Any) -> float:
    if isinstance(value, float):
        return value
    if abs(_long(value)) > _EXACT_DOUBLE:
        raise _DoubtError
    return float(value)


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _DoubtError
    return value


def _list(found: Any, take: Callable[[Any], Any]) -> list[Any]:
    if not isinstance(found, list):
        raise _DoubtError
    return [take(each) for each in found]
