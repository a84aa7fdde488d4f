"""Collations that take unequal texts for equal, found in the text of a type.

Where equal values become one (groups, max, distinct rows), Spark keeps the text that came first, ``JFK`` or ``jfk``. A
condition may compare by any collation: it gives the same for every order of rows.
"""

from __future__ import annotations

import re
from typing import Final

_COLLATED: Final = re.compile(r"\b(?:string|char\(\d+\)|varchar\(\d+\)) collate (\w+)", re.IGNORECASE)
_EXACT: Final = ("UTF8_BINARY", "UNICODE")
"""Those by which only equal texts are equal; ``UNICODE`` only orders them otherwise."""


def loose_collation(type_text: str) -> str:
    """The first such collation of a type, or of what it consists of, such as ``struct<a: string collate UTF8_LCASE>``;
    empty if there is none."""
    return next((name for name in _COLLATED.findall(type_text) if name.upper() not in _EXACT), "")
