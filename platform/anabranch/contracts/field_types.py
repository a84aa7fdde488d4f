"""Types of event data: the part of a contract's schema that determines types, and the merge of several schemas.

A shape is a node of a schema that holds only ``type``, ``format``, ``precision``, ``scale``, ``properties`` and
``items``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from anabranch.contracts.decimals import is_decimal, type_name

Node = Mapping[str, Any]


class ShapesClash(Exception):
    """Two shapes give the same path different types."""

    def __init__(self, path: str, one: str, other: str) -> None:
        self.path, self.one, self.other = path, one, other
        super().__init__(f"{path} is {one} and {other}")


def kind(node: Node) -> str:
    """The type of a node as text: ``"integer"``, ``"string date-time"``, ``"string decimal(12,2)"``, ``"object"``."""
    if is_decimal(node):
        return f"{node['type']} {type_name(node)}"
    return f"{node['type']} {node.get('format', '')}".strip()


def shape(node: Node) -> Node:
    """The node without the keywords that only restrict values."""
    found = {key: node[key] for key in ("type", "format", "precision", "scale") if key in node}
    if node["type"] == "object":
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
    return kind(node), children, _type_key(node["items"]) if "items" in node else None
