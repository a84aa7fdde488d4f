"""Normalise the cells of a view's rows to plain values that can be compared."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from datetime import UTC, datetime
from typing import Any


def canonical(value: Any) -> Hashable:
    """Returns a value that equals another one exactly when the cells are equal. NaN equals NaN; the order of lists
    counts."""
    match value:
        case float():
            return "NaN" if value != value else value + 0.0
        case datetime() if value.tzinfo is not None:
            return value.astimezone(UTC)
        case Mapping():
            return tuple((name, canonical(inner)) for name, inner in sorted(value.items()))
        case list() | tuple():
            return tuple(map(canonical, value))
        case bytearray():
            return bytes(value)
        case _:
            return value if isinstance(value, Hashable) else repr(value)
