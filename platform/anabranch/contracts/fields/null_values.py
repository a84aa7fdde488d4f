"""Which values of a contract may be null, and how a schema says it.

A field may be null unless it is required. The items of an array and the values of a map may be null where their type
says so: ``"type": ["string", "null"]``, or ``"nullable": true``. In memory a node always has one type, and may have
``nullable: true`` with it. It is a rule about values: types and columns are the same with and without it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from anabranch.core.errors import BadDefinition

Node = Mapping[str, Any]
_INNER: Final = {"items": "[]", "additionalProperties": ".*"}
_NULLABLE: Final = "nullable"
_WRITTEN: Final = '"type": ["string", "null"]'


def may_be_null(node: Node) -> bool:
    """Whether items of an array, or values of a map, with this node may be null."""
    return node.get(_NULLABLE) is True


def nullable_paths(node: Node, path: str = "") -> Iterator[str]:
    """Where items and values below a node may be null: ``.lines[].tags[]``."""
    below = [(f"{path}.{name}", child) for name, child in node.get("properties", {}).items()]
    for at, child in [*below, *((path + step, node[key]) for key, step in _INNER.items() if key in node)]:
        if may_be_null(child):
            yield at
        yield from nullable_paths(child, at)


def several_types(types: Sequence[str], what: str = "it") -> str:
    """What is wrong with values of these types, in words."""
    return f"{what} may be {' or '.join(types)}, and a column has one type"


def in_memory(path: str, schema: Node) -> Node:
    """A schema as it is written, with one type for each node; the same object if it has that already. Raises
    BadDefinition CONTRACT_SCHEMA for a node of several types, or of null only, or a required field that may be null.
    What is no schema at all is left to the checks of the contract."""
    return _of_children(path, schema)


def as_written(schema: Node) -> dict[str, Any]:
    """The schema as JSON Schema says it: with ``null`` among the types of a node."""
    found = {key: value for key, value in schema.items() if key != _NULLABLE}
    if may_be_null(schema):
        found["type"] = [schema["type"], "null"]
    if "properties" in schema:
        found["properties"] = {name: as_written(child) for name, child in schema["properties"].items()}
    return found | {key: as_written(schema[key]) for key in _INNER if key in schema}


def _of_children(path: str, node: Node) -> Node:
    changed: dict[str, Any] = {}
    fields, required = node.get("properties"), node.get("required")
    if isinstance(fields, Mapping):
        needed = required if isinstance(required, list | tuple) else ()
        read = {name: _of_field(f"{path}.{name}", child, name in needed) for name, child in fields.items()}
        if any(read[name] is not child for name, child in fields.items()):
            changed["properties"] = read
    for key, step in _INNER.items():
        if isinstance(child := node.get(key), Mapping) and (one := _of_one(path + step, child)) is not child:
            changed[key] = one
    return {**node, **changed} if changed else node


def _of_field(path: str, node: Any, required: bool) -> Any:
    if not isinstance(node, Mapping):
        return node
    read = _of_one(path, node)
    if not may_be_null(read):
        return read
    if required:
        raise BadDefinition(
            "CONTRACT_SCHEMA",
            f"{path}: it is required, so it can't be null",
            next_step="take it out of required: it may be absent or null then",
        )
    return {key: value for key, value in read.items() if key != _NULLABLE}


def _of_one(path: str, node: Node) -> Node:
    """The node with one type, and those below it."""
    if not isinstance(node.get(_NULLABLE, True), bool):
        raise BadDefinition(
            "CONTRACT_SCHEMA", f"{path}: nullable is {node[_NULLABLE]!r}", next_step=f"write it as {_WRITTEN}"
        )
    if types := _union(node.get("type")):
        null = "null" in types or may_be_null(node)
        node = {**node, "type": _only(path, [each for each in dict.fromkeys(types) if each != "null"]), _NULLABLE: null}
    if node.get(_NULLABLE) is False:
        node = {key: value for key, value in node.items() if key != _NULLABLE}
    return _of_children(path, node)


def _union(types: Any) -> list[str]:
    """The names of several types, or of null; empty for anything else."""
    if not isinstance(types, list) or not all(isinstance(each, str) for each in types):
        return []
    return types if len(types) > 1 or "null" in types else []


def _only(path: str, types: Sequence[str]) -> str:
    if not types:
        raise BadDefinition("CONTRACT_SCHEMA", f"{path}: it is always null", next_step="leave it out of the contract")
    if len(types) > 1:
        raise BadDefinition(
            "CONTRACT_SCHEMA",
            f"{path}: {several_types(types)}",
            next_step="leave the field out of the contract: its records land, and its values stay in their raw bytes. "
            f"Or have producers send a field for each type. With null, one type is written {_WRITTEN}",
        )
    return types[0]
