"""Cells of a view's rows as plain values that can be compared."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from datetime import UTC, datetime
from typing import Any


def canonical(value: Any) -> Hashable:
    """A value that equals another exactly when the cells are equal: NaN equals NaN, lists are compared in order."""
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
