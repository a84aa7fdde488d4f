"""How large a schema is once each name in it stands for its definition: of a few KB it may be billions of types."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

MOST_TYPES: Final = 10_000
MOST_LEVELS: Final = 200
TOO_DEEP: Final = f"its types are nested over {MOST_LEVELS} levels deep, which can't be read"


@dataclass(frozen=True, slots=True)
class Extent:
    """The number of types, and of levels of those that hold others."""

    types: int = 1
    levels: int = 1


def extent_of(parts: Iterable[Extent], *, own: int = 1) -> Extent:
    """That of a type with these parts; ``own`` is 0 for one that is no value itself. Raises ValueError if it is too
    large, before it takes the other parts."""
    types, levels = own, own
    for part in parts:
        types, levels = types + part.types, max(levels, own + part.levels)
        if types > MOST_TYPES:
            raise ValueError(f"it has over {MOST_TYPES:,} types where each name stands for its definition: too many")
        if levels > MOST_LEVELS:
            raise ValueError(TOO_DEEP)
    return Extent(types, levels)
