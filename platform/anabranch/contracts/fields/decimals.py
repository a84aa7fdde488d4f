"""Decimals of contracts: ``{"type": "string" or "number", "format": "decimal", "precision": 12, "scale": 2}``.

A decimal is written as digits, with a minus before them and a point between them if need be. Zeros at the end may go
beyond the scale; at most 38 digits are read, zeros in front not counted. It is never rounded: what doesn't fit is
refused. So is an exponent: parsers make a double of such a number, and a writer of one has used doubles.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, Final, TypeGuard

from anabranch.core.errors import BadDefinition
from anabranch.core.text.strict_json import JsonObject, strict_decoder

Node = Mapping[str, Any]
MAX_PRECISION: Final = 38
_WRITTEN: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_EXAMPLE: Final = '{"type": "string", "format": "decimal", "precision": 12, "scale": 2}'


class WrittenFloat(float):
    """A JSON number with a point or an exponent, and the text that it was written as: for ``parse_float``."""

    __slots__ = ("text",)

    def __new__(cls, text: str) -> WrittenFloat:
        made = super().__new__(cls, text)
        made.text = text
        return made

    text: str


EXACT_DECODER: Final = strict_decoder(WrittenFloat, JsonObject)
"""Reads JSON and keeps the text of each number that may be a decimal, and the names that an object has twice."""


def is_decimal(node: Node) -> bool:
    return node.get("format") == "decimal"


def has_decimals(node: Node) -> bool:
    """Whether the node is or holds a decimal, at any depth."""
    below = [*node.get("properties", {}).values(), *(node[k] for k in ("items", "additionalProperties") if k in node)]
    return is_decimal(node) or any(has_decimals(child) for child in below)


def type_name(node: Node) -> str:
    """As engines name it: ``decimal(12,2)``."""
    return f"decimal({node['precision']},{node['scale']})"


def pattern(node: Node) -> str:
    """A regular expression, for Java and Python, of the whole text of a decimal that fits.

    Nothing in it backtracks over zeros: a megabyte of them takes no longer than reading them.
    """
    whole, scale = node["precision"] - node["scale"], node["scale"]
    at_most_38 = rf"(?![0-9.]{{{MAX_PRECISION + 2}}})"  # digits and the point; 39 digits without one don't fit anyway
    return rf"-?(?=[0-9])0*+{at_most_38}[0-9]{{0,{whole}}}(?:\.(?=[0-9])[0-9]{{0,{scale}}}+0*+)?"


def problem(value: Any, node: Node) -> str:
    """What is wrong with a value of a decimal field, in words; empty if it can be stored exactly.

    ``value`` comes from a JSON parser: a float's text is the shortest that Python gives it, unless it is a
    ``WrittenFloat``.
    """
    declared, found = node["type"], json_type(value)
    if found != declared:
        return f"{_article(found)} where a {declared} is declared"
    text = _text(value)
    if re.fullmatch(pattern(node), text):
        return ""
    return f"a {declared} {_misfit(text, node)}"


def exact_value(value: Any) -> Decimal:
    """The decimal that a value without a ``problem`` says."""
    return Decimal(_text(value))


def _misfit(text: str, node: Node) -> str:
    if not _WRITTEN.fullmatch(text):
        if node["type"] == "number" or re.fullmatch(rf"{_WRITTEN.pattern}[eE][-+]?[0-9]+", text):
            return "with an exponent"
        return "that isn't written like -12.50"
    whole, _, fraction = text.removeprefix("-").partition(".")
    whole = whole.lstrip("0")
    if len(whole) > node["precision"] - node["scale"]:
        return f"with more than {_digits(node['precision'] - node['scale'])} before the point"
    if len(fraction.rstrip("0")) > node["scale"]:
        return f"with more than {_digits(node['scale'])} behind the point"
    return f"with more than {MAX_PRECISION} digits"


def _digits(count: int) -> str:
    return "1 digit" if count == 1 else f"{count} digits"


def json_type(value: Any) -> str:
    """JSON's name for the type of a parsed value."""
    names = ((bool, "boolean"), (str, "string"), (int | float | Decimal, "number"), (list, "array"), (dict, "object"))
    return next((name for kind, name in names if isinstance(value, kind)), "null")


def _article(name: str) -> str:
    return name if name == "null" else f"{'an' if name[0] in 'ao' else 'a'} {name}"


def _text(value: Any) -> str:
    if isinstance(value, WrittenFloat):
        return value.text
    return repr(value) if isinstance(value, float) else str(value)


def limit(node: Node, keyword: str) -> Any:
    """The ``minimum`` or ``maximum`` of a node, None if it has none. That of a decimal is exact."""
    found = node.get(keyword)
    return found if found is None or not is_decimal(node) else exact_value(found)


def check_decimal(path: str, node: Node) -> None:
    """Raises BadDefinition CONTRACT_SCHEMA for the first thing in which a decimal is declared wrongly, or for a
    precision or scale where there is no decimal."""
    for what, next_step in _wrong(node) if is_decimal(node) else _stray(node):
        raise BadDefinition("CONTRACT_SCHEMA", f"{path}: {what}", next_step=next_step)


def _stray(node: Node) -> Iterator[tuple[str, str]]:
    if stray := sorted({"precision", "scale"} & set(node)):
        yield f"{' and '.join(stray)} without format decimal", f"add it, or leave them out: {_EXAMPLE}"


def _wrong(node: Node) -> Iterator[tuple[str, str]]:
    if node.get("type") not in ("string", "number"):
        yield f"a decimal can't be a {node.get('type')!r}", "say how records hold it: as a string or as a number"
    if missing := [name for name in ("precision", "scale") if name not in node]:
        yield f"a decimal without {' and '.join(missing)}", f"give all digits and those behind the point: {_EXAMPLE}"
    precision: Any = node.get("precision")
    scale: Any = node.get("scale")
    if not _is_whole(precision) or not 1 <= precision <= MAX_PRECISION:
        yield f"precision {precision!r} isn't a whole number from 1 to {MAX_PRECISION}", "give the number of all digits"
    elif not _is_whole(scale) or not 0 <= scale <= precision:
        what = f"scale {scale!r} isn't a whole number from 0 to the precision, {precision}"
        yield what, "give the number of digits behind the point; precision counts these too"
    if refused := sorted({"enum", "pattern"} & set(node)):
        yield f"{' and '.join(refused)} can't be checked of a decimal", "use minimum and maximum, or check it in a view"
    for keyword in ("minimum", "maximum"):
        if keyword not in node:
            continue
        if not _is_exact(node[keyword]):
            yield f"{keyword} {node[keyword]!r} isn't exact", f'write its digits in a text: "{keyword}": "0.05"'
        elif not re.fullmatch(pattern(node), _text(node[keyword])):
            what = f"{keyword} {node[keyword]!r} {_misfit(_text(node[keyword]), node)} is no {type_name(node)}"
            yield what, "give one that the field can hold"


def _is_whole(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_exact(value: Any) -> bool:
    """A whole number, a text of digits, or a float of at most 15 digits: with more, it may not be what was written."""
    if isinstance(value, bool) or not isinstance(value, int | float | str) or not _WRITTEN.fullmatch(_text(value)):
        return False
    return not isinstance(value, float) or len(_text(value).strip("-0").replace(".", "")) <= 15
