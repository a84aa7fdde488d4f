"""Values moved from one shape to another, as Spark expressions: what a type's landed struct holds and what one version
of its contract says are not the same once it has several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anabranch.contracts.field_types import Node, same_shape
from anabranch.ingest.landing.schema import spark_ddl
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, StructType

_SCALARS: dict[str, dict[str, str]] = {
    "bigint": {"type": "integer"},
    "double": {"type": "number"},
    "boolean": {"type": "boolean"},
    "timestamp": {"type": "string", "format": "date-time"},
    "date": {"type": "string", "format": "date"},
}


def project(value: Column, here: Node, wanted: Node) -> Column:
    """``value``, of the shape ``here``, with exactly the fields of ``wanted``: null where it lacks one.

    The same Column when nothing has to be done. Fields that both have are typed alike.
    """
    if same_shape(here, wanted):
        return value
    if wanted["type"] == "array":
        return F.transform(value, lambda item: project(item, here["items"], wanted["items"]))
    there = here.get("properties", {})
    fields = [
        (project(value[name], there[name], child) if name in there else typed_null(child)).alias(name)
        for name, child in wanted.get("properties", {}).items()
    ]
    return F.when(value.isNotNull(), F.struct(*fields))


def typed_null(node: Node) -> Column:
    """A null of the node's type."""
    return F.lit(None).cast(spark_ddl(node))


def node_of(kind: DataType) -> Node:
    """The shape that a column of a landing table has."""
    if isinstance(kind, StructType):
        return {"type": "object", "properties": {field.name: node_of(field.dataType) for field in kind.fields}}
    if isinstance(kind, ArrayType):
        return {"type": "array", "items": node_of(kind.elementType)}
    return _SCALARS.get(kind.simpleString(), {"type": "string"})


Versions = Sequence[tuple[int, Node]]
"""The versions of one event type that have a node: each as its place among the topic's contracts, with the node."""


def as_sent(value: Column, here: Node, wanted: Node, versions: Versions, follows: Column) -> Column:
    """``value`` as landing holds it for all ``versions`` together (``wanted``): of each event only the fields that the
    version it ``follows`` names. What its contract doesn't know was not checked, and stays in the raw bytes."""
    if all(same_shape(node, wanted) for _, node in versions):
        return project(value, here, wanted)
    if wanted["type"] == "array":
        inner = [(place, node["items"]) for place, node in versions]
        return F.transform(value, lambda item: as_sent(item, here["items"], wanted["items"], inner, follows))
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
