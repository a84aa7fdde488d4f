"""Reads an Avro container file that holds maps, which Polars can't: row by row, with fastavro."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from decimal import Context, Decimal
from typing import Any, BinaryIO, Final

import fastavro
import pyarrow as pa

from anabranch.contracts.fields.registered_schema import RegisteredSchema
from anabranch.contracts.formats import avro_branches, is_avro_decimal, parsed_schema
from anabranch.ingest.files._json_lines import Unreadable

_TYPES: Final[Mapping[str, pa.DataType]] = {
    "null": pa.null(), "boolean": pa.bool_(), "int": pa.int32(), "long": pa.int64(), "float": pa.float32(),
    "double": pa.float64(), "bytes": pa.binary(), "string": pa.string(), "enum": pa.string(), "fixed": pa.binary(),
    "date": pa.date32(), "uuid": pa.string(), "time-millis": pa.time64("us"), "time-micros": pa.time64("us"),
    "timestamp-millis": pa.timestamp("us", "UTC"), "timestamp-micros": pa.timestamp("us", "UTC"),
    "local-timestamp-millis": pa.timestamp("us"), "local-timestamp-micros": pa.timestamp("us"),
}  # fmt: skip
_EXACT: Final = Context(prec=200)
_Convert = Callable[[Any], Any]


def tables_with_maps(file: BinaryIO) -> Iterator[pa.Table] | None:
    """The rows of an Avro container file as tables, in order; None if its schema has no map, or is none to fastavro.
    Raises Unreadable; the tables what fastavro raises."""
    try:
        blocks = fastavro.block_reader(file)
        parsed, expanded = parsed_schema(RegisteredSchema("avro", blocks.metadata["avro.schema"]))
    except Exception:  # Polars reads it all the same, or says what is wrong
        return None
    if not _has_map(expanded):
        return None
    kind, convert = _type(expanded, "")

    def rows() -> Iterator[pa.Table]:
        for block in blocks:
            data = block.bytes_  # type: ignore[attr-defined]  # its stubs lack it
            read = (fastavro.schemaless_reader(data, parsed, None) for _ in range(block.num_records))
            yield pa.Table.from_pylist([convert(row) for row in read], pa.schema(list(kind)))

    return rows()


def _has_map(schema: Any) -> bool:
    if isinstance(schema, list):
        return any(map(_has_map, schema))
    if not isinstance(schema, Mapping):
        return False
    below = [*(field["type"] for field in schema.get("fields", ())), schema.get("items")]
    return schema["type"] == "map" or any(map(_has_map, below))


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
        scale = int(schema.get("scale", 0))
        exact = pa.decimal128(int(schema["precision"]), scale)
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
