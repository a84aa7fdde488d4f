"""Finds event types of two topics whose columns in landing have one name and can't be read together.

Each topic's table has a column per event type (``a.b_c`` and ``a_b.c``: ``a_b_c``), and a view over both topics reads
their union. Spark would then widen a field that has two types, so that one of them gets other values than were sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations, product

from anabranch.contracts import Topic
from anabranch.contracts.fields.field_types import Node, is_map
from anabranch.contracts.model.topics import Sources
from anabranch.ingest.landing.table.schema import spark_ddl


def clash_of_columns(topics: Sources) -> str:
    """Which two event types clash, and in which field; "" if none do."""
    for one, other in combinations(sorted(topics.each, key=lambda topic: topic.name), 2):
        for first, second in product(one.event_types, other.event_types):
            column = _column(one, first)
            if column != _column(other, second):
                continue
            if path := next(_clashes(one.shape(first), other.shape(second)), ""):
                return f"{first} and {second} share the column {column}, in which their {path} differ"
    return ""


def _column(topic: Topic, event_type: str) -> str:
    return topic.newest(event_type).column


def _clashes(one: Node, other: Node, path: str = "") -> Iterator[str]:
    """The paths of fields that both have with other types, or that differ only in upper and lower case."""
    known: Mapping[str, tuple[str, Node]] = {
        name.lower(): (name, node) for name, node in other.get("properties", {}).items()
    }
    for name, node in one.get("properties", {}).items():
        there, its = known.get(name.lower(), (name, node))
        at = f"{path}.{name}".lstrip(".")
        if there != name:
            yield f"fields {at} and {there}"
        elif all(each["type"] == "object" and not is_map(each) for each in (node, its)):
            yield from _clashes(node, its, at)
        elif spark_ddl(node) != spark_ddl(its):
            yield f"fields {at}"
