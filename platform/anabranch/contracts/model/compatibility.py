"""Checks whether a new version of a contract is compatible with the one before it, as its ``compatibility`` demands.

``backward``: readers of the new version can read events of the old one. ``forward``: the other way round.
``full``: both. ``none``: no guarantee. A field keeps its type in every case, because landing holds one typed
column for all versions.

An upcaster can make a version ``backward`` compatible too: it must then return each field of which the new version
demands more (``required_from_upcaster``); ``views._upcasting`` checks that. There are no downcasters, so
``forward`` and ``full`` depend on the schemas alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from typing import Any, Protocol

from anabranch.contracts.fields.decimals import limit
from anabranch.contracts.fields.field_types import Node, is_map, kind, same_shape
from anabranch.contracts.fields.null_values import may_be_null
from anabranch.contracts.fields.text_formats import is_text_format
from anabranch.contracts.model.contract import Compatibility, Contract
from anabranch.core.errors import BadDefinition


class HasSchema(Protocol):
    """A contract, or the record of one."""

    @property
    def schema(self) -> Node: ...


def check_versions(contracts: Sequence[Contract], upcasters: Collection[tuple[str, int]] = ()) -> None:
    """Check each version against the one before it. ``upcasters``: (event type, version) that an upcaster starts from.

    Raises BadDefinition CONTRACT_INCOMPATIBLE with every incompatible field.
    """
    for name in dict.fromkeys(c.name for c in contracts):
        versions = sorted((c for c in contracts if c.name == name), key=lambda c: c.version)
        for old, new in pairwise(versions):
            broken = sorted(set(_incompatibilities(old, new, upcast=(name, old.version) in upcasters)))
            if broken:
                raise BadDefinition(
                    "CONTRACT_INCOMPATIBLE",
                    f"{name} v{new.version} is not {new.compatibility.value} compatible with v{old.version}: "
                    + "; ".join(broken),
                    next_step=_advice(old, new, broken),
                    contract=name,
                    version=new.version,
                    broken=tuple(broken),
                )


def required_from_upcaster(old: Contract, new: Contract) -> frozenset[str]:
    """The fields of ``new`` that an upcaster from ``old`` must return, so that ``new`` is backward compatible."""
    if new.compatibility is not Compatibility.BACKWARD:
        return frozenset()
    return _stricter_fields(old, new)


def allowed_from_upcaster(old: Contract, new: Contract) -> frozenset[str]:
    """The fields of ``new`` that an upcaster from ``old`` may return: new ones, and those of which ``new`` demands
    more. Fields that are alike in both versions are copied, so a search for their values also finds old events."""
    alike = {n for n, node in new.fields.items() if n in old.fields and same_shape(old.fields[n], node)}
    return frozenset(set(new.fields) - alike | _stricter_fields(old, new))


def _stricter_fields(old: Contract, new: Contract) -> frozenset[str]:
    """The top-level fields of which ``new`` demands more than ``old`` guaranteed, at any depth."""
    found = _stricter_rules("data", written=old.schema, read=new.schema)
    return frozenset(path.split(".")[1].partition("[")[0] for path, _ in found)


def narrowed(old: HasSchema, new: HasSchema) -> list[str]:
    """Where ``new`` rejects what ``old`` allowed; empty if ``new`` only allows more."""
    return sorted({f"{path} {what}" for path, what in _stricter_rules("data", written=old.schema, read=new.schema)})


def _advice(old: Contract, new: Contract, broken: Sequence[str]) -> str:
    if new.compatibility is Compatibility.BACKWARD and not any(" was " in reason for reason in broken):
        return f"keep what v{old.version} guaranteed, or give the topic an upcaster from v{old.version} that adds them"
    return f"keep what v{old.version} guaranteed, or give the event type another name"


def _incompatibilities(old: Contract, new: Contract, *, upcast: bool) -> Iterator[str]:
    yield from _type_changes("data", old.schema, new.schema)
    rule, found = new.compatibility, list[tuple[str, str]]()
    if rule is Compatibility.FULL or (rule is Compatibility.BACKWARD and not upcast):
        found += _stricter_rules("data", written=old.schema, read=new.schema)
    if rule in (Compatibility.FORWARD, Compatibility.FULL):
        found += _stricter_rules("data", written=new.schema, read=old.schema)
    yield from (f"{path} {what}" for path, what in found)


def _shared_children(path: str, one: Node, other: Node) -> Iterator[tuple[str, Node, Node]]:
    """The children that both nodes describe, with their path."""
    others = other.get("properties", {})
    for name, child in one.get("properties", {}).items():
        if name in others:
            yield f"{path}.{name}", child, others[name]
    if "items" in one and "items" in other:
        yield f"{path}[]", one["items"], other["items"]
    if is_map(one) and is_map(other):
        yield f"{path}.*", one["additionalProperties"], other["additionalProperties"]


def _type_changes(path: str, old: Node, new: Node) -> Iterator[str]:
    if kind(old) != kind(new):
        yield f"{path} was {kind(old)} and is {kind(new)}"
    for child in _shared_children(path, old, new):
        yield from _type_changes(*child)


def _stricter_rules(path: str, *, written: Node, read: Node) -> Iterator[tuple[str, str]]:
    """Where a reader with schema ``read`` would reject what ``written`` allows: the path, and why."""
    for name in sorted(set(read.get("required", ())) - set(written.get("required", ()))):
        yield f"{path}.{name}", "is required by one version only"
    if may_be_null(written) and not may_be_null(read):
        yield path, "may be null in one version only"
    if "enum" in read and not set(written.get("enum", [object()])) <= set(read["enum"]):
        yield path, "allows fewer values"
    if "minimum" in read and _limit(written, "minimum", "-inf") < _limit(read, "minimum"):
        yield path, "has a higher minimum"
    if "maximum" in read and _limit(written, "maximum", "inf") > _limit(read, "maximum"):
        yield path, "has a lower maximum"
    if "pattern" in read and written.get("pattern") != read["pattern"]:
        yield path, "has another pattern"
    if is_text_format(read) and written.get("format") != read["format"]:
        yield path, f"has the format {read['format']} in one version only"
    for where, one, other in _shared_children(path, written, read):
        yield from _stricter_rules(where, written=one, read=other)


def _limit(node: Node, keyword: str, without: str = "") -> Any:
    found = limit(node, keyword)
    return float(without) if found is None else found
