"""Whether a new version of a contract keeps the promise that its ``compatibility`` makes.

``backward``: who reads by the new version can read events of the old one. ``forward``: the other way round.
``full``: both. ``none``: neither is promised. A field keeps its type in every case, because landing holds one typed
column for all versions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from anabranch.errors import BadDefinition
from anabranch.events.contracts import Compatibility, Contract

Node = Mapping[str, Any]


def check_versions(contracts: Sequence[Contract]) -> None:
    """Check each version against the one before it. Raises CONTRACT_INCOMPATIBLE with every broken field."""
    for name in dict.fromkeys(c.name for c in contracts):
        versions = sorted((c for c in contracts if c.name == name), key=lambda c: c.version)
        for old, new in pairwise(versions):
            broken = sorted(set(_broken(old, new)))
            if broken:
                raise BadDefinition(
                    "CONTRACT_INCOMPATIBLE",
                    f"{name} v{new.version} is not {new.compatibility.value} compatible with v{old.version}: "
                    + "; ".join(broken),
                    next_step=f"keep what v{old.version} promised, or give the event type another name",
                    contract=name,
                    version=new.version,
                    broken=tuple(broken),
                )


def _broken(old: Contract, new: Contract) -> Iterator[str]:
    yield from _other_types("data", old.schema, new.schema)
    rule = new.compatibility
    if rule in (Compatibility.BACKWARD, Compatibility.FULL):
        yield from _narrower("data", written=old.schema, read=new.schema)
    if rule in (Compatibility.FORWARD, Compatibility.FULL):
        yield from _narrower("data", written=new.schema, read=old.schema)


def _shared(path: str, one: Node, other: Node) -> Iterator[tuple[str, Node, Node]]:
    """The children that both nodes describe."""
    others = other.get("properties", {})
    for name, child in one.get("properties", {}).items():
        if name in others:
            yield f"{path}.{name}", child, others[name]
    if "items" in one and "items" in other:
        yield f"{path}[]", one["items"], other["items"]


def _other_types(path: str, old: Node, new: Node) -> Iterator[str]:
    was, now = (f"{node['type']} {node.get('format', '')}".strip() for node in (old, new))
    if was != now:
        yield f"{path} was {was} and is {now}"
    for child in _shared(path, old, new):
        yield from _other_types(*child)


def _narrower(path: str, *, written: Node, read: Node) -> Iterator[str]:
    """Where a reader by ``read`` would refuse what ``written`` allows."""
    for name in sorted(set(read.get("required", ())) - set(written.get("required", ()))):
        yield f"{path}.{name} is required by one version only"
    if "enum" in read and not set(written.get("enum", [object()])) <= set(read["enum"]):
        yield f"{path} allows fewer values"
    if "minimum" in read and written.get("minimum", float("-inf")) < read["minimum"]:
        yield f"{path} has a higher minimum"
    if "maximum" in read and written.get("maximum", float("inf")) > read["maximum"]:
        yield f"{path} has a lower maximum"
    if "pattern" in read and written.get("pattern") != read["pattern"]:
        yield f"{path} has another pattern"
    for where, one, other in _shared(path, written, read):
        yield from _narrower(where, written=one, read=other)
