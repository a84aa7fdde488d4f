"""The types of fields in schemas: which are the same, which can be merged, and exact numbers.

In: a JSON Schema of a contract. Out: shapes that can be compared, and the precision and scale of decimals.

``decimals`` validates the formats of exact numbers and reads their values; ``restrictions`` what a contract says of
values, ``patterns`` its regular expressions (``pattern_match`` runs them) and ``text_formats`` the formats of texts.
``field_types`` turns a schema into a tree of types, compares two, and merges those of several versions into the one of
a landing table. ``null_values`` reads which values may be null. ``registered_schema`` is a schema as a registry has it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch._lazy_exports import lazy_exports

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(__name__)

__all__ = [
    "decimals",
    "field_types",
    "null_values",
    "pattern_match",
    "patterns",
    "registered_schema",
    "restrictions",
    "text_formats",
]
