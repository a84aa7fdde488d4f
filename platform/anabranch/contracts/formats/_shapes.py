"""What the documents of a schema look like, as a contract says it: to infer contracts, and to check declared ones.

A shape is a contract's node. What no contract can hold (unions of several types) is left out, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from anabranch.contracts.fields.decimals import MAX_PRECISION
from anabranch.contracts.fields.field_types import Node
from anabranch.contracts.fields.null_values import several_types
from anabranch.contracts.fields.registered_schema import RegisteredSchema

_AVRO: Final[Mapping[str, Node]] = {
    "boolean": {"type": "boolean"},
    "int": {"type": "integer"},
    "long": {"type": "integer"},
    "float": {"type": "number"},
    "double": {"type": "number"},
    "string": {"type": "string"},
    "bytes": {"type": "string", "contentEncoding": "base64"},
    "fixed": {"type": "string", "contentEncoding": "base64"},
}
_LOGICAL: Final[Mapping[tuple[str, str], Node]] = {
    ("int", "date"): {"type": "string", "format": "date"},
    ("long", "timestamp-millis"): {"type": "string", "format": "date-time"},
    ("long", "timestamp-micros"): {"type": "string", "format": "date-time"},
    ("long", "local-timestamp-millis"): {"type": "string", "description": "a time without an offset"},
    ("long", "local-timestamp-micros"): {"type": "string", "description": "a time without an offset"},
    ("int", "time-millis"): {"type": "string", "format": "time"},
    ("long", "time-micros"): {"type": "string", "format": "time"},
    ("string", "uuid"): {"type": "string", "format": "uuid"},
}
"""By type and logical type. Others are read as their type."""
_PROTOBUF: Final[Mapping[str, Node]] = {
    "google.protobuf.Timestamp": {"type": "string", "format": "date-time"},
    "google.protobuf.Duration": {"type": "string", "description": "a duration in seconds, like 1.5s"},
    "google.protobuf.FieldMask": {"type": "string"},
    "google.protobuf.StringValue": {"type": "string"},
    "google.protobuf.BytesValue": {"type": "string", "contentEncoding": "base64"},
    "google.protobuf.BoolValue": {"type": "boolean"},
    "google.protobuf.DoubleValue": {"type": "number"},
    "google.protobuf.FloatValue": {"type": "number"},
    **{f"google.protobuf.{sign}Int{bits}Value": {"type": "integer"} for sign in ("", "U") for bits in (32, 64)},
}


@dataclass(frozen=True, slots=True)
class Shape:
    """``node``: an object with the names of the records. ``left_out``: fields that it lacks, and why."""

    node: Node
    left_out: tuple[str, ...]


class _LeftOutError(Exception):
    """A field that no contract can hold."""


def shape_of(schema: RegisteredSchema) -> Shape:
    """The shape of a schema's documents; in Protobuf those of the first message of its file. Raises ValueError."""
    left_out: list[str] = []
    if schema.format == "avro":
        from anabranch.contracts.formats._avro import parsed_schema

        _, expanded = parsed_schema(schema)
        if not isinstance(expanded, dict) or expanded["type"] not in ("record", "error"):
            raise ValueError("it is no record, and only records have fields")
        return Shape(_avro_record(expanded, "", left_out), tuple(left_out))
    from anabranch.contracts.formats._protobuf import descriptors

    kinds = list(descriptors(schema).message_types_by_name.values())
    if not kinds:
        raise ValueError("it holds no message")
    return Shape(_message(kinds[0], "", left_out), tuple(left_out))


def _object(fields: Iterator[tuple[str, bool, Any]], path: str, left_out: list[str], node: Any) -> Node:
    """``fields``: name, whether it is required, and its type, which ``node`` makes a node of."""
    properties, required = {}, []
    for name, needed, kind in fields:
        try:
            properties[name] = node(kind, f"{path}{name}", left_out)
        except _LeftOutError as why:
            left_out.append(f"{path}{name}: left out, {why}")
            continue
        if needed:
            required.append(name)
    return {"type": "object", **({"required": required} if required else {}), "properties": properties}


def _with_fields(node: Node) -> Node:
    if not node["properties"]:
        raise _LeftOutError("it has no fields")
    return node


def _avro_record(schema: Any, path: str, left_out: list[str]) -> Node:
    from anabranch.contracts.formats._avro import avro_branches

    fields = ((f["name"], avro_branches(f["type"]) == [f["type"]], f["type"]) for f in schema["fields"])
    return _object(fields, path, left_out, _avro_node)


def _avro_node(schema: Any, path: str, left_out: list[str]) -> Node:
    from anabranch.contracts.formats._avro import is_avro_decimal

    only = _only(schema)
    if isinstance(only, str):
        return _AVRO[only]
    if is_avro_decimal(only):
        return _avro_decimal(only)
    kind = only["type"]
    if kind in ("record", "error"):
        return _with_fields(_avro_record(only, f"{path}.", left_out))
    if kind == "enum":
        return {"type": "string", "description": f"one of {', '.join(only['symbols'])}"}
    if kind == "map":
        return {
            "type": "object",
            "additionalProperties": _avro_inner(only["values"], "its values", f"{path}.*", left_out),
        }
    if kind == "array":
        return {"type": "array", "items": _avro_inner(only["items"], "its items", f"{path}[]", left_out)}
    return _LOGICAL.get((kind, only.get("logicalType", "")), _AVRO.get(kind, {"type": "string"}))


def _only(schema: Any, what: str = "it") -> Any:
    """The one type of a value, besides null. ``what`` names the value in the reason."""
    from anabranch.contracts.formats._avro import avro_branches

    found = avro_branches(schema)
    if len(found) == 1:
        return found[0]
    raise _LeftOutError(_several(what, found))


def _several(what: str, types: Sequence[Any]) -> str:
    if not types:
        return f"{what} {'is' if what == 'it' else 'are'} always null"
    return several_types([_word(each) for each in types], what)


def _avro_inner(schema: Any, what: str, path: str, left_out: list[str]) -> Node:
    """The node of an array's items, or a map's values."""
    only = _only(schema, what)
    node = _inside(_avro_node(only, path, left_out))
    null = isinstance(schema, list) and len(schema) > 1
    return {**node, "nullable": True} if null else node


def _word(schema: Any) -> str:
    """A type as Avro names it."""
    return schema if isinstance(schema, str) else str(schema.get("logicalType") or schema.get("name") or schema["type"])


def _avro_decimal(schema: Any) -> Node:
    precision, scale = int(schema["precision"]), int(schema.get("scale", 0))
    if not scale <= precision <= MAX_PRECISION:
        raise _LeftOutError(f"no column can hold decimal({precision},{scale})")
    return {"type": "number", "format": "decimal", "precision": precision, "scale": scale}


def _message(kind: Any, path: str, left_out: list[str]) -> Node:
    fields = ((f.name, not f.has_presence, f) for f in kind.fields)
    return _object(fields, path, left_out, _protobuf_node)


def _protobuf_node(field: Any, path: str, left_out: list[str]) -> Node:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        return _map_of(_protobuf_node(field.message_type.fields_by_name["value"], f"{path}.*", left_out))
    if field.message_type is None:
        node = _protobuf_scalar(field)
    elif (known := _PROTOBUF.get(field.message_type.full_name)) is not None:
        node = known
    elif field.message_type.full_name.startswith("google.protobuf."):
        raise _LeftOutError(f"its type is open ({field.message_type.full_name})")
    else:
        node = _with_fields(_message(field.message_type, f"{path}.", left_out))
    return {"type": "array", "items": _inside(node)} if field.is_repeated else node


def _protobuf_scalar(field: Any) -> Node:
    if field.enum_type is not None:
        return {"type": "string", "description": f"one of {', '.join(v.name for v in field.enum_type.values)}"}
    if field.type == field.TYPE_BYTES:
        return _AVRO["bytes"]
    if field.cpp_type in (field.CPPTYPE_FLOAT, field.CPPTYPE_DOUBLE):
        return {"type": "number"}
    if field.cpp_type in (field.CPPTYPE_BOOL, field.CPPTYPE_STRING):
        return {"type": "boolean" if field.cpp_type == field.CPPTYPE_BOOL else "string"}
    return {"type": "integer"}


def _map_of(node: Node) -> Node:
    return {"type": "object", "additionalProperties": _inside(node)}


def _inside(node: Node) -> Node:
    """Inside of arrays and maps nothing is required: landing doesn't check it there."""
    found = {key: value for key, value in node.items() if key not in ("required", "description")}
    if "properties" in node:
        found["properties"] = {name: _inside(child) for name, child in node["properties"].items()}
    return found
