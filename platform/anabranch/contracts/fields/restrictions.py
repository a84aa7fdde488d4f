"""The keywords of a contract that restrict a field's values: ``format``, ``contentEncoding``, ``enum``, ``minimum``,
``maximum``, ``pattern``. Each belongs to certain types; with another type the engines fail, or check nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from anabranch.contracts.fields.decimals import is_decimal
from anabranch.contracts.fields.field_types import fits_double
from anabranch.contracts.fields.patterns import check_pattern
from anabranch.contracts.fields.text_formats import TEXT_FORMATS, is_bytes
from anabranch.core.errors import BadDefinition

FORMATS: Final[Mapping[str, tuple[str, ...]]] = {
    "date-time": ("string",),
    "date": ("string",),
    **dict.fromkeys(TEXT_FORMATS, ("string",)),
    "decimal": ("string", "number"),
}
"""The types that may have a format."""
_NUMBERS: Final = ("integer", "number")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def check_restrictions(path: str, node: Mapping[str, Any]) -> None:
    """Raises BadDefinition CONTRACT_SCHEMA for the first of these keywords that is wrong. The type was checked before;
    ``check_decimal`` checks the keywords of decimals."""
    for what, next_step in () if is_decimal(node) else _wrong(node):
        raise BadDefinition("CONTRACT_SCHEMA", f"{path}: {what}", next_step=next_step)
    if "pattern" in node and not is_decimal(node):
        check_pattern(path, node["pattern"])


def for_engines(value: Any) -> Any:
    """A limit as engines take it: a whole number beyond 64 bits as a double, whose order among integers is the same."""
    return value if not isinstance(value, int) or _fits_64_bits(value) else float(value)


def _fits_64_bits(value: int) -> bool:
    return -(2**63) <= value < 2**63


def _wrong(node: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    kind = node["type"]
    if "format" in node and not (isinstance(node["format"], str) and kind in FORMATS.get(node["format"], ())):
        yield (
            f"landing can't check format {node['format']!r} of a {kind}",
            "use date-time, date, time, uuid or decimal, or leave it out: a pattern can check a text",
        )
    if "contentEncoding" in node:
        yield from _wrong_encoding(node, kind)
    if "pattern" in node and kind != "string":
        yield f"a pattern of a {kind}", "leave it out: patterns are for strings"
    for keyword in ("minimum", "maximum"):
        if keyword in node and kind not in _NUMBERS:
            yield f"{keyword} of a {kind}", "leave it out: limits are for numbers"
        elif keyword in node and not _is_number(node[keyword]):
            yield f"{keyword} {node[keyword]!r} is no number", "give a number"
    if kind == "integer" and (node.get("minimum", 0) >= 2**63 or node.get("maximum", 0) < -(2**63)):
        yield "no integer of 64 bits is within its limits", "declare a decimal(20,0), which holds those of uint64"
    if "enum" in node:
        yield from _wrong_values(node["enum"], kind)


def _wrong_encoding(node: Mapping[str, Any], kind: str) -> Iterator[tuple[str, str]]:
    if kind != "string" or not is_bytes(node):
        yield (
            f"contentEncoding {node['contentEncoding']!r} of a {kind}",
            "bytes are base64 of a string, or leave it out",
        )
    elif stray := sorted({"format", "enum", "pattern"} & set(node)):
        yield f"{' and '.join(stray)} can't be checked of bytes", "leave it out, or check the bytes in a view"


def _wrong_values(values: Any, kind: str) -> Iterator[tuple[str, str]]:
    if not isinstance(values, list | tuple) or not values:
        yield f"enum {values!r} is no list of values", "list the allowed values"
        return
    if kind in ("object", "array"):
        yield f"enum of a {kind}", "list the values of its fields, or check it in a view"
        return
    for value in values:
        if value is not None and not _is_a(value, kind):
            size = " of 64 bits" if kind == "integer" and type(value) is int else ""
            yield f"enum has {value!r}, which is no {kind}{size}", "list values of the field's type"
        elif isinstance(value, str) and _SURROGATE.search(value):
            yield f"enum has {value!r}: no text can hold half of a surrogate pair", "leave it out, or write it whole"


def _is_a(value: Any, kind: str) -> bool:
    match kind:
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool) and _fits_64_bits(value)
        case _:
            return _is_number(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and fits_double(value)
