"""Spark expressions that convert values between schemas: the landed struct of an event type holds the fields of all
its contract versions, a reader wants those of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, DecimalType, MapType, StructField, StructType

from anabranch.contracts.fields.field_types import Node, is_map, same_shape
from anabranch.ingest.landing.table.schema import spark_ddl

_SCALARS: dict[str, dict[str, str]] = {
    "bigint": {"type": "integer"},
    "double": {"type": "number"},
    "boolean": {"type": "boolean"},
    "timestamp": {"type": "string", "format": "date-time"},
    "date": {"type": "string", "format": "date"},
    "binary": {"type": "string", "contentEncoding": "base64"},
}


def project(value: Column, here: Node, wanted: Node) -> Column:
    """``value``, which has the shape ``here``, with exactly the fields of ``wanted``: null where it lacks one.

    Returns the same Column if the types are equal. Fields in both shapes must have the same type.
    """
    if same_type(here, wanted):
        return value
    if wanted["type"] == "array":
        return F.transform(value, lambda item: project(item, here["items"], wanted["items"]))
    if is_map(wanted):
        inner = here["additionalProperties"], wanted["additionalProperties"]
        return F.transform_values(value, lambda _, each: project(each, *inner))
    there = here.get("properties", {})
    fields = [
        (project(value[name], there[name], child) if name in there else typed_null(child)).alias(name)
        for name, child in wanted.get("properties", {}).items()
    ]
    return F.when(value.isNotNull(), F.struct(*fields))


def same_type(here: Node, wanted: Node) -> bool:
    """Whether both are the same type in a table. A shape says more: whether records hold a decimal as a string."""
    return spark_ddl(here) == spark_ddl(wanted)


def typed_null(node: Node) -> Column:
    """A null of the node's type."""
    return F.lit(None).cast(spark_ddl(node))


def node_of(kind: DataType) -> Node:
    """The shape of a column of a landing table."""
    if isinstance(kind, StructType):
        return {"type": "object", "properties": {field.name: node_of(field.dataType) for field in kind.fields}}
    if isinstance(kind, ArrayType):
        return {"type": "array", "items": node_of(kind.elementType)}
    if isinstance(kind, MapType):
        return {"type": "object", "additionalProperties": node_of(kind.valueType)}
    if isinstance(kind, DecimalType):
        return {"type": "number", "format": "decimal", "precision": kind.precision, "scale": kind.scale}
    return _SCALARS.get(kind.simpleString(), {"type": "string"})


def comparable(value: Column, kind: DataType) -> Column:
    """``value`` with its pairs, sorted by key, in place of each map: Spark compares no maps."""
    if not _holds_map(kind):
        return value
    if isinstance(kind, MapType):
        values = kind.valueType
        entries = F.transform(
            F.map_entries(value),
            lambda pair: F.struct(pair["key"].alias("key"), comparable(pair["value"], values).alias("value")),
        )
        return F.array_sort(entries)
    if isinstance(kind, ArrayType):
        items = kind.elementType
        return F.transform(value, lambda item: comparable(item, items))
    assert isinstance(kind, StructType)  # noqa: S101 - nothing else holds a map
    fields = (comparable(value[field.name], field.dataType).alias(field.name) for field in kind.fields)
    return F.when(value.isNotNull(), F.struct(*fields))


def _holds_map(kind: DataType) -> bool:
    inner = [kind.elementType] if isinstance(kind, ArrayType) else kind.fields if isinstance(kind, StructType) else []
    below = (each.dataType if isinstance(each, StructField) else each for each in inner)
    return isinstance(kind, MapType) or any(map(_holds_map, below))


Versions = Sequence[tuple[int, Node]]
"""Versions of one event type that have a node: the index of each among the topic's contracts, with its node."""


def as_sent(value: Column, here: Node, wanted: Node, versions: Versions, follows: Column) -> Column:
    """``value`` as landing holds it for all ``versions`` (``wanted``): each event keeps only the fields of the version
    that it ``follows``. Other fields were not checked against a contract, and stay in the raw bytes only."""
    if all(same_shape(node, wanted) for _, node in versions):
        return project(value, here, wanted)
    if wanted["type"] == "array":
        inner = [(place, node["items"]) for place, node in versions]
        return F.transform(value, lambda item: as_sent(item, here["items"], wanted["items"], inner, follows))
    if is_map(wanted):
        of = [(place, node["additionalProperties"]) for place, node in versions]
        here, wanted = here["additionalProperties"], wanted["additionalProperties"]
        return F.transform_values(value, lambda _, each: as_sent(each, here, wanted, of, follows))
    return F.when(value.isNotNull(), F.struct(*fields_as_sent(value, here, wanted, versions, follows)))


def fields_as_sent(value: Column, here: Node, wanted: Node, versions: Versions, follows: Column) -> list[Column]:
    """The same for each field of an object."""
    there: dict[str, Any] = here["properties"]
    found = []
    for name, child in wanted.get("properties", {}).items():
        users = [(place, node["properties"][name]) for place, node in versions if name in node.get("properties", {})]
        field = as_sent(value[name], there[name], child, users, follows)
        kept = field if len(users) == len(versions) else F.when(follows.isin(*(place for place, _ in users)), field)
        found.append(kept.alias(name))
    return found
