"""Types of event data: the part of a contract's schema that determines types, and the merge of several schemas.

A shape is a node of a schema that holds only ``type``, ``format``, ``contentEncoding``, ``precision``, ``scale``,
``properties``, ``items`` and ``additionalProperties``: the type of a map's values.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from anabranch.contracts.fields.decimals import is_decimal, type_name
from anabranch.contracts.fields.text_formats import is_bytes, is_plain

Node = Mapping[str, Any]
_MOST_KEY: Final = 60


class ShapesClash(Exception):
    """Two shapes give the same path different types."""

    def __init__(self, path: str, one: str, other: str) -> None:
        self.path, self.one, self.other = path, one, other
        super().__init__(f"{path} is {one} and {other}")


def is_map(node: Node) -> bool:
    return "additionalProperties" in node


def is_nested(node: Node) -> bool:
    """Whether no path leads to the values in it: a map, or an array of objects, arrays or maps."""
    return is_map(node) or (node["type"] == "array" and node["items"]["type"] in ("object", "array"))


def has_maps(node: Node) -> bool:
    """Whether the node is or holds a map, at any depth."""
    below = [*node.get("properties", {}).values(), *([node["items"]] if "items" in node else [])]
    return is_map(node) or any(has_maps(child) for child in below)


def is_double(node: Node) -> bool:
    """Whether the node is a number that is stored as a double."""
    return node["type"] == "number" and not is_decimal(node)


def fits_double(value: float) -> bool:
    """Whether a number lies within the range of a double: ``1e400`` doesn't, and would be stored as infinity."""
    try:
        return math.isfinite(value)
    except OverflowError:  # an int of more than 308 digits
        return False


def key_text(key: str) -> str:
    """A key of a map, as messages show it: ``'north'``."""
    return repr(key if len(key) <= _MOST_KEY else f"{key[:_MOST_KEY]}...")


def kind(node: Node) -> str:
    """The type of a node as text: ``"integer"``, ``"string date-time"``, ``"string decimal(12,2)"``, ``"object"``,
    ``"map"``."""
    if is_map(node):
        return "map"
    if is_decimal(node):
        return f"{node['type']} {type_name(node)}"
    if is_bytes(node):
        return f"{node['type']} base64"
    return str(node["type"]) if is_plain(node) else f"{node['type']} {node['format']}"


def shape(node: Node) -> Node:
    """The node without the keywords that only restrict values."""
    found = {key: node[key] for key in ("type", "precision", "scale", "contentEncoding") if key in node}
    if not is_plain(node) and "format" in node:
        found["format"] = node["format"]
    if is_map(node):
        found["additionalProperties"] = shape(node["additionalProperties"])
    elif node["type"] == "object":
        found["properties"] = {name: shape(child) for name, child in node.get("properties", {}).items()}
    if "items" in node:
        found["items"] = shape(node["items"])
    return found


def sent_names(node: Node, path: str = "data") -> Iterator[tuple[str, str]]:
    """The path of each field below a node, and the name that it is sent by."""
    for name, child in node.get("properties", {}).items():
        yield f"{path}.{name}", str(child.get("sent_as", name))
        yield from sent_names(child, f"{path}.{name}")
    if "items" in node:
        yield from sent_names(node["items"], f"{path}[]")
    if is_map(node):
        yield from sent_names(node["additionalProperties"], f"{path}.*")


def same_shape(one: Node, other: Node) -> bool:
    """Whether both have the same type; the order of fields is part of a type."""
    return bool(_type_key(one) == _type_key(other))


def merge(nodes: Iterable[Node], path: str = "data") -> Node:
    """The shape with the fields of all ``nodes``, also of nested objects; the fields of the first node come first.

    Raises ShapesClash if a path has two types. The result for one node is its own shape.
    """
    given = list(nodes)
    first, *others = [shape(node) for node in given]
    for other in others:
        first = _merge_two(first, other, path)
    return first


def _merge_two(one: Node, other: Node, path: str) -> Node:
    if kind(one) != kind(other):
        raise ShapesClash(path, kind(one), kind(other))
    if is_map(one):
        values = _merge_two(one["additionalProperties"], other["additionalProperties"], f"{path}.*")
        return {"type": "object", "additionalProperties": values}
    if one["type"] == "object":
        fields = dict(one["properties"])
        for name, child in other["properties"].items():
            fields[name] = _merge_two(fields[name], child, f"{path}.{name}") if name in fields else child
        return {"type": "object", "properties": fields}
    if one["type"] == "array":
        return {"type": "array", "items": _merge_two(one["items"], other["items"], f"{path}[]")}
    return one


def _type_key(node: Node) -> Any:
    children = [(name, _type_key(child)) for name, child in node.get("properties", {}).items()]
    inner = [_type_key(node[key]) for key in ("items", "additionalProperties") if key in node]
    return kind(node), children, inner
