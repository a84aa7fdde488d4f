"""Fields with another name in the records than in the contract (``sent_as``).

They are parsed by the one, and have the other from then on.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column
from pyspark.sql import functions as F

from anabranch.contracts import Topic
from anabranch.contracts.fields.field_types import Node, is_map, sent_names
from anabranch.contracts.model.contract import FIELD_NAME

Renames = Mapping[str, str]
"""The name in the records, by the path in the contract (``data.lines[].sku``), of fields where they differ."""


def renamed_fields(topic: Topic) -> Renames:
    pairs = (pair for contract in topic.contracts for pair in sent_names(contract.schema))
    return {path: sent for path, sent in pairs if path.rpartition(".")[2] != sent}


def as_sent(node: Node, renames: Renames, path: str = "data") -> Node:
    """The node with the names of the records."""
    if not renames:
        return node
    if is_map(node):
        return {**node, "additionalProperties": as_sent(node["additionalProperties"], renames, f"{path}.*")}
    if node["type"] == "object":
        named = {name: as_sent(child, renames, f"{path}.{name}") for name, child in node["properties"].items()}
        return {**node, "properties": {renames.get(f"{path}.{name}", name): child for name, child in named.items()}}
    if node["type"] == "array":
        return {**node, "items": as_sent(node["items"], renames, f"{path}[]")}
    return node


def as_declared(value: Column, node: Node, renames: Renames, path: str = "data") -> Column:
    """A parsed value of ``as_sent`` with the names of the contract. Untouched where nothing below it is renamed."""
    if not any(renamed.startswith(path) for renamed in renames):
        return value
    if is_map(node):
        values = node["additionalProperties"]
        return F.transform_values(value, lambda _, each: as_declared(each, values, renames, f"{path}.*"))
    if node["type"] == "object":
        fields = [
            as_declared(value[renames.get(at, name)], child, renames, at).alias(name)
            for name, child in node["properties"].items()
            for at in (f"{path}.{name}",)
        ]
        return F.when(value.isNotNull(), F.struct(*fields))
    if node["type"] == "array":
        return F.transform(value, lambda item: as_declared(item, node["items"], renames, f"{path}[]"))
    return value


def json_step(sent: str) -> str:
    """A step of a JSON path to a field of this name."""
    return f".{sent}" if FIELD_NAME.fullmatch(sent) else f"['{sent}']"
