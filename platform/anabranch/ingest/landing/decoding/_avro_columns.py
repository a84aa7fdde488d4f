"""Columns of Avro records by the engine's own decoder, without a JSON text in between.

The decoder alone can't be trusted: it ignores bytes behind a value, keeps texts that are no UTF-8, takes any byte for a
boolean, and of an ``int`` or a short decimal it keeps as many bits as fit. So it reads each record with an end mark
behind it, which must come out whole, and what is in doubt isn't accepted: such a record is read again as all others are
(``_decode_fallback``). Only schemas that need nothing else are read this way, see ``_engine_type``.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from itertools import count
from operator import and_
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro

from anabranch.contracts import Avro, Topic, formats
from anabranch.contracts.fields.decimals import MAX_PRECISION, is_decimal, type_name
from anabranch.contracts.fields.field_types import Node, is_double, is_map
from anabranch.contracts.fields.null_values import may_be_null
from anabranch.contracts.fields.registered_schema import RegisteredSchema
from anabranch.contracts.fields.text_formats import is_bytes
from anabranch.ingest.landing.decoding._documents import base64_of
from anabranch.ingest.landing.decoding._fast_columns import Field, UnsupportedError, fields_of, struct_of
from anabranch.ingest.landing.decoding._renames import Renames, renamed_fields
from anabranch.ingest.landing.decoding._typed_values import of_text
from anabranch.ingest.landing.table.schema import spark_ddl

_MOST_SCHEMAS: Final = 8
"""Of a registry: each makes the plan larger."""
_MARK_BYTES: Final = 16
_TIMES: Final = ("timestamp-millis", "timestamp-micros")
_DIGITS: Final = ("logicalType", "precision", "scale")
_NUMBERS: Final = ("int", "long", "float", "double")
_UUID: Final = r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\z"
"""As it is landed; the other decoder rewrites all other forms."""
_DOUBTFUL: Final = ("int", "float", "double", "string")
_LEAST_INT, _MOST_INT = -(2**31), 2**31 - 1
_BYTES_OF_LONG: Final = 8


@dataclass(frozen=True, slots=True)
class _Reader:
    schema: str
    head: bytes
    """The bytes in front of the values that are read by it."""
    type: Any


def with_avro_columns(records: DataFrame, topic: Topic, fields: Mapping[str, Node]) -> DataFrame | None:
    """``records`` with the columns of ``_fast_columns``; None if a schema of the topic isn't read this way."""
    if not isinstance(topic.records, Avro):
        return None
    read, found = records, []
    mark = secrets.token_bytes(_MARK_BYTES)  # a new one each time: a record can't hold it on purpose
    try:
        for number, reader in enumerate(_readers(topic.records)):
            value = F.col(f"_avro{number}")
            data = _data(fields, reader.type, value["value"], renamed_fields(topic))
            read = read.withColumn(f"_avro{number}", _decoded(reader, mark))
            found.append((reduce(and_, [value["end"] == F.lit(mark), *_doubts(reader.type, value["value"])]), data))
    except UnsupportedError:
        return None
    return fields_of(read, found) if found else None


def _readers(records: Avro) -> Iterator[_Reader]:
    """Those of the known schemas; what is no schema, and its records, are refused later. Raises UnsupportedError."""
    schemas = [(b"", RegisteredSchema("avro", str(records.schema)))]
    if records.from_registry:
        known = (records.schemas or {}).items()
        schemas = [(formats.head_of(number), schema) for number, schema in known if schema.format == "avro"]
    if len(schemas) > _MOST_SCHEMAS:
        raise UnsupportedError
    for head, schema in schemas:
        try:
            _, expanded = formats.parsed_schema(schema)
        except ValueError:
            continue
        if isinstance(expanded, dict) and expanded["type"] == "record":
            end = {"type": "fixed", "name": "end_mark", "size": _MARK_BYTES}
            marked = [("value", _engine_type(expanded, count())), ("end", end)]
            fields = [{"name": name, "type": each} for name, each in marked]
            yield _Reader(json.dumps({"type": "record", "name": "marked", "fields": fields}), head, expanded)


def _decoded(reader: _Reader, mark: bytes) -> Column:
    value, ours = F.col("value"), F.col("partition") >= 0  # rows of files hold JSON
    named = ours & F.startswith(value, F.lit(reader.head)) if reader.head else ours
    behind = F.substring(value, len(reader.head) + 1, 1 << 30) if reader.head else value
    return F.when(named, from_avro(F.concat(behind, F.lit(mark)), reader.schema, {"mode": "PERMISSIVE"}))


def _only(schema: Any) -> Any:
    """The type of a value besides null. Raises UnsupportedError if there are several, or none."""
    types = formats.avro_branches(schema)
    if len(types) != 1:
        raise UnsupportedError
    return types[0]


def _holds_null(schema: Any) -> bool:
    return isinstance(schema, list)


def _kind(schema: Any) -> tuple[str, str]:
    """The name of a type, and of its logical one. Raises UnsupportedError for logical types that aren't known here."""
    if not isinstance(schema, Mapping):
        return schema, ""
    kind, logical = str(schema["type"]), str(schema.get("logicalType", ""))
    if logical == "decimal" and kind in ("bytes", "fixed"):
        precision = int(schema.get("precision", 0))
        if not (0 < precision <= MAX_PRECISION and 0 <= int(schema.get("scale", 0)) <= precision):
            raise UnsupportedError
    elif (kind, logical) not in {("string", "uuid"), ("int", "date"), *(("long", each) for each in _TIMES)} and logical:
        raise UnsupportedError
    return kind, logical


def _engine_type(schema: Any, names: Iterator[int]) -> Any:
    """The schema for the engine: each named type has a name of its own, a boolean is a byte, an ``int`` or an enum a
    ``long``, and a decimal has the most digits that its bytes may hold.

    Raises UnsupportedError for a union of several types, a map, an array of anything but plain scalars (which may be
    null), and logical types that the engine knows in another way or not at all.
    """
    if isinstance(schema, list):
        _only(schema)
        return [_engine_type(each, names) for each in schema]
    kind, logical = _kind(schema)
    own = {"type": kind, "name": f"n{next(names)}"}
    match kind:
        case "int" | "enum":
            return "long"
        case "null" | "long" | "float" | "double" | "string" | "bytes":
            return {"type": kind, **_digits(schema)} if logical else kind
        case "boolean":
            return {**own, "type": "fixed", "size": 1}
        case "fixed":
            return {**own, "size": schema["size"], **_digits(schema)}
        case "record" if schema["fields"]:
            fields = ({"name": each["name"], "type": _engine_type(each["type"], names)} for each in schema["fields"])
            return {**own, "fields": list(fields)}
        case "array" if _only(schema["items"]) in (*_NUMBERS, "string"):
            return {"type": "array", "items": _engine_type(schema["items"], names)}
    raise UnsupportedError


def _digits(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The logical type. The engine cuts the bytes of a decimal of up to 18 digits off to 64 bits."""
    found = {key: schema[key] for key in _DIGITS if key in schema}
    size = schema.get("size", MAX_PRECISION)
    if found.get("logicalType") == "decimal" and size > _BYTES_OF_LONG:
        found["precision"] = min(MAX_PRECISION, len(str(2 ** (8 * size - 1))) - 1)
    return found


def _doubts(schema: Any, value: Column) -> Iterator[Column]:
    """What must be true of a decoded value, null or not, for it to be what the bytes say."""
    schema = _only(schema)
    kind, _ = _kind(schema)
    if kind == "record":
        for field in schema["fields"]:
            yield from _doubts(field["type"], value[field["name"]])
    elif kind == "array":
        if _only(schema["items"]) in _DOUBTFUL:
            yield value.isNull() | F.forall(value, lambda each: _item_doubt(schema["items"], each))
    elif (holds := _doubt(schema, value)) is not None:
        yield value.isNull() | holds


def _item_doubt(items: Any, each: Column) -> Column:
    holds: Column = _doubt(_only(items), each)
    return each.isNull() | holds if _holds_null(items) else holds


def _doubt(schema: Any, value: Column) -> Any:
    kind, logical = _kind(schema)
    if logical == "decimal":
        return value.try_cast(f"decimal({schema['precision']},{schema.get('scale', 0)})").isNotNull()
    if kind == "enum":
        return value.between(0, len(schema["symbols"]) - 1)
    if logical == "date":
        return value.between(_LEAST_INT, _MOST_INT) & F.year(_date(value)).between(1, 9999)
    if kind == "int":
        return value.between(_LEAST_INT, _MOST_INT)
    if logical == "uuid":
        return value.rlike(_UUID)
    if kind == "string":
        return F.is_valid_utf8(value)
    if kind in ("float", "double"):
        return F.abs(value) < F.lit(float("inf"))
    if kind == "boolean":
        return value.isin(b"\x00", b"\x01")
    if logical in _TIMES:
        return F.year(value).between(1, 9999)
    return None


def _date(days: Column) -> Column:
    return F.date_from_unix_date(days.try_cast("int"))


def _data(fields: Mapping[str, Node], schema: Any, value: Column, renames: Renames, path: str = "data") -> Field:
    """The struct of a record, by the names of the contract."""
    types = {field["name"]: field["type"] for field in schema["fields"]}
    found = {}
    for name, node in fields.items():
        at = f"{path}.{name}"
        sent = renames.get(at, name)
        found[name] = _field(node, types[sent], value[sent], renames, at) if sent in types else _nothing(node)
    return struct_of(found, value)


def _nothing(node: Node) -> Field:
    nothing = F.lit(None).cast(spark_ddl(node))
    return Field(nothing, nothing)


def _field(node: Node, schema: Any, value: Column, renames: Renames, path: str) -> Field:
    schema = _only(schema)
    kind, logical = _kind(schema)
    wanted, format_ = node["type"], node.get("format", "")
    if kind == "record" and wanted == "object" and not is_map(node):
        return _data(node.get("properties", {}), schema, value, renames, path)
    if kind == "array" and wanted == "array" and "format" not in node["items"] and not is_bytes(node["items"]):
        if _holds_null(schema["items"]) and not may_be_null(node["items"]):
            raise UnsupportedError  # nothing looks for nulls behind this decoder
        found = F.transform(value, lambda each: _field(node["items"], schema["items"], each, {}, "").typed)
        return Field(found, found)
    if logical == "decimal" and is_decimal(node) and wanted == "number":
        return _exact(node, schema, value)
    if kind in ("string", "enum") and wanted == "string" and not is_decimal(node):
        text = value if kind == "string" else F.get(F.array(*map(F.lit, schema["symbols"])), value.try_cast("int"))
        return Field(F.when(text.isNotNull(), F.lit(b"")) if is_bytes(node) else text, of_text(text, node))
    if logical == "date" and format_ == "date":
        found = _date(value)
    elif logical in _TIMES and format_ == "date-time":
        found = value
    elif kind in ("bytes", "fixed") and not logical and (wanted, format_) == ("string", ""):
        found = value if is_bytes(node) else base64_of(value)
    elif kind in ("float", "double") and is_double(node):
        found = value.cast("double")
    elif kind in ("int", "long") and not logical and wanted == "integer":
        found = value.cast("bigint")
    elif kind == "boolean" and wanted == "boolean":
        found = value == F.lit(b"\x01")
    else:
        raise UnsupportedError
    return Field(found, found)


def _exact(node: Node, schema: Any, value: Column) -> Field:
    scale, whole = int(schema.get("scale", 0)), int(schema["precision"]) - int(schema.get("scale", 0))
    if scale > node["scale"] or whole > node["precision"] - node["scale"]:
        raise UnsupportedError
    found = value.try_cast(type_name(node))
    return Field(found, found)
