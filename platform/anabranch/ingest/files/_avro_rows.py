"""Reads an Avro container file whose schema Polars can't read (maps, for example): row by row, with fastavro."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from decimal import Context, Decimal
from itertools import islice
from typing import Any, BinaryIO, Final

import fastavro
import pyarrow as pa

from anabranch.contracts.fields.decimals import MAX_PRECISION
from anabranch.contracts.fields.registered_schema import RegisteredSchema
from anabranch.contracts.formats import AvroValues, avro_branches, is_avro_decimal, parsed_schema
from anabranch.ingest.files._json_lines import Unreadable

_TYPES: Final[Mapping[str, pa.DataType]] = {
    "null": pa.null(), "boolean": pa.bool_(), "int": pa.int32(), "long": pa.int64(), "float": pa.float32(),
    "double": pa.float64(), "bytes": pa.binary(), "string": pa.string(), "enum": pa.string(), "fixed": pa.binary(),
    "date": pa.date32(), "uuid": pa.string(), "time-millis": pa.time64("us"), "time-micros": pa.time64("us"),
    "timestamp-millis": pa.timestamp("us", "UTC"), "timestamp-micros": pa.timestamp("us", "UTC"),
    "local-timestamp-millis": pa.timestamp("us"), "local-timestamp-micros": pa.timestamp("us"),
}  # fmt: skip
_SIMPLE: Final = ("boolean", "int", "long", "float", "double", "bytes", "string")
_AT_ONCE: Final = 1_000
"""Rows of a table: blocks have some ten of them, and each table is a query."""
_EXACT: Final = Context(prec=200)
_Convert = Callable[[Any], Any]


def tables_by_row(file: BinaryIO) -> Iterator[pa.Table] | None:
    """The rows of an Avro container file as tables, in order; None if Polars reads its schema, or it is none to
    fastavro. Raises Unreadable; the tables what fastavro raises."""
    try:
        blocks = fastavro.block_reader(file)
        text = blocks.metadata["avro.schema"]
        schema = json.loads(text)
    except Exception:  # Polars reads it all the same, or says what is wrong
        return None
    if not isinstance(schema, Mapping) or schema["type"] != "record":
        kind = schema["type"] if isinstance(schema, Mapping) else "union" if isinstance(schema, list) else schema
        raise Unreadable(f"its rows are of type {kind}, and not records")
    if schema["fields"] and all(_is_enum(field["type"]) or _polars_reads(field["type"]) for field in schema["fields"]):
        return None
    try:
        parsed, expanded = parsed_schema(RegisteredSchema("avro", text))
    except ValueError as error:
        raise Unreadable(str(error)) from error
    if AvroValues(parsed, expanded, b"").least_bytes == 0:
        raise Unreadable("its rows may have no bytes at all: a file of a few bytes could claim any number of them")
    kind, convert = _type(expanded, "")

    def rows() -> Iterator[Any]:
        for block in blocks:
            encoded = block.bytes_.getvalue()  # type: ignore[attr-defined]  # its stubs lack it
            values = AvroValues(parsed, expanded, encoded)
            for _ in range(block.num_records):
                yield convert(values.read())

    read = rows()
    return (
        pa.Table.from_pylist(some, pa.schema(list(kind))) for some in iter(lambda: list(islice(read, _AT_ONCE)), [])
    )


def _polars_reads(schema: Any) -> bool:
    """Whether Polars reads values of a type as it stands in a file. Of a named type it reads the definition only; an
    enum as a field of the whole record only. Of values without bytes it takes any number that a file claims."""
    if isinstance(schema, list):
        return len(schema) == 2 and "null" in schema and any(map(_polars_reads, schema))
    if isinstance(schema, str):
        return schema in _SIMPLE
    kind = schema["type"]
    if not isinstance(kind, str):
        return _polars_reads(kind)
    if is_avro_decimal(schema):
        return int(schema["precision"]) <= MAX_PRECISION
    if kind == "record":
        return bool(schema["fields"]) and all(_polars_reads(field["type"]) for field in schema["fields"])
    if kind == "array":
        return _polars_reads(schema["items"])
    return kind in _SIMPLE or (kind == "fixed" and schema["size"] > 0 and schema.get("logicalType") != "duration")


def _is_enum(schema: Any) -> bool:
    return isinstance(schema, Mapping) and schema["type"] == "enum"


def _column(schema: Any, path: str) -> tuple[pa.DataType, _Convert]:
    """The type of a column, and what makes its values of those that fastavro reads. Raises Unreadable."""
    found = avro_branches(schema)
    if len(found) > 1:
        raise Unreadable(f"column {path} may have {len(found)} types, and a column has one")
    kind, convert = _type(found[0] if found else "null", path)
    return kind, lambda value: None if value is None else convert(value)


def _type(schema: Any, path: str) -> tuple[pa.DataType, _Convert]:
    name = schema if isinstance(schema, str) else schema["type"]
    logical = "" if isinstance(schema, str) else schema.get("logicalType", "")
    if is_avro_decimal(schema):
        precision, scale = int(schema["precision"]), int(schema.get("scale", 0))
        if precision > MAX_PRECISION:
            raise Unreadable(
                f"column {path} is a decimal of {precision} digits, and at most {MAX_PRECISION} can be read"
            )
        exact = pa.decimal128(precision, scale)
        return exact, lambda value: Decimal(int.from_bytes(value, "big", signed=True)).scaleb(-scale, _EXACT)
    if name in ("record", "error"):
        below = {f["name"]: _column(f["type"], f"{path}.{f['name']}".lstrip(".")) for f in schema["fields"]}
        struct = pa.struct([(field, kind) for field, (kind, _) in below.items()])
        return struct, lambda value: {field: convert(value[field]) for field, (_, convert) in below.items()}
    if name == "map":
        kind, convert = _column(schema["values"], f"{path}.*")
        return pa.map_(pa.string(), kind), lambda value: [(key, convert(each)) for key, each in value.items()]
    if name == "array":
        kind, convert = _column(schema["items"], f"{path}[]")
        return pa.list_(kind), lambda value: [convert(each) for each in value]
    return _TYPES.get(logical, _TYPES[name]), str if logical == "uuid" else lambda value: value
