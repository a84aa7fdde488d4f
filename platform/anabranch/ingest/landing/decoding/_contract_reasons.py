"""Says what is wrong with the data of an event by its contract, in plain Python.

jsonschema-rs, which checks what is sent (``contracts.sending``), can't say it (0.60.3): it takes no float that keeps
its text (``5.0`` where an integer is declared raises, instead of an error with a path), and no half of a surrogate
pair; and it knows neither decimals, nor keys that a map has twice, nor times before the year 1 or behind 9999
(``0001-01-01T00:00:00+23:00``). Each of these is a reason, and the words depend on the declaration, not on the keyword.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime
from typing import Any

from anabranch.contracts import Contract
from anabranch.contracts.fields.decimals import exact_value, is_decimal, limit, problem, type_name
from anabranch.contracts.fields.field_types import fits_double, is_double, is_map, key_text
from anabranch.contracts.fields.null_values import may_be_null
from anabranch.contracts.fields.pattern_match import matcher
from anabranch.contracts.fields.text_formats import DATE, DATE_TIME, has_format, is_base64, is_bytes
from anabranch.contracts.model.contract import sent_name


def contract_problems(contract: Contract, data: Any) -> Iterator[str]:
    """What is wrong with the data of an event, in the order of the contract's fields."""
    if not isinstance(data, dict):
        yield "contract: data is missing or no object"
        return
    for name, node in contract.fields.items():
        sent = sent_name(name, node)
        yield from (
            f"contract: {text}" for text in _field(data.get(sent), node, f"data.{sent}", name in contract.required)
        )


def _field(value: Any, node: Mapping[str, Any], path: str, required: bool) -> Iterator[str]:
    if value is None:
        if required:
            yield f"{path} is missing"
        return
    if is_decimal(node):
        if why := problem(value, node):
            yield f"{path} is no {type_name(node)}: {why}"
            return
        value = exact_value(value)
    elif not _is_a(value, node):
        beyond = " of 64 bits: declare a decimal(20,0)" if node["type"] == "integer" and type(value) is int else ""
        yield f"{path} is no {'base64' if is_bytes(node) else node.get('format', node['type'])}{beyond}"
        return
    if is_double(node) and not fits_double(value):
        yield f"{path} is beyond the numbers of 64 bits (1.8e308)"
        return
    if is_map(node):
        yield from _values(value, node["additionalProperties"], path)
        return
    if node["type"] == "array":
        items, firm = ((f"{path}[{n}]", item) for n, item in enumerate(value)), not may_be_null(node["items"])
        wrong = (why for at, item in items for why in _field(item, node["items"], at, firm))
        if why := next(wrong, ""):
            kind = type_name(node["items"]) if is_decimal(node["items"]) else node["items"]["type"]
            yield f"{path} holds what is no {kind} ({why})"
    if "enum" in node and value not in node["enum"]:
        yield f"{path} is none of {node['enum']}"
    if "minimum" in node and value < limit(node, "minimum"):
        yield f"{path} is below {node['minimum']}"
    if "maximum" in node and value > limit(node, "maximum"):
        yield f"{path} is above {node['maximum']}"
    if "pattern" in node and not _matches(node["pattern"], value):
        yield f"{path} doesn't match {node['pattern']}"
    if node["type"] == "object":
        needed = set(node.get("required", ()))
        for name, child in node.get("properties", {}).items():
            sent = sent_name(name, child)
            yield from _field(value.get(sent), child, f"{path}.{sent}", name in needed)


def _values(pairs: Mapping[str, Any], node: Mapping[str, Any], path: str) -> Iterator[str]:
    """What is wrong with a map, whose values have this node."""
    if repeated := getattr(pairs, "repeated", ()):
        yield f"{path}[{key_text(repeated[0])}] is there twice"
    for key, value in pairs.items():
        at = f"{path}[{key_text(key)}]"
        if value is None and not may_be_null(node):
            yield f"{at} is null"
        yield from _field(value, node, at, False)


def _matches(pattern: str, value: str) -> bool:
    """Whether a text has the pattern; true if nothing but Java can say: a reason must not stop landing."""
    try:
        return matcher(pattern)(value)
    except Exception:  # too large, too slow, half of a surrogate pair, or of a contract that would be refused today
        return True


def _is_a(value: Any, node: Mapping[str, Any]) -> bool:
    kind = node["type"]
    if isinstance(value, bool) != (kind == "boolean"):
        return False
    fits: dict[str, Any] = {"string": str, "integer": int, "number": int | float, "boolean": bool}
    fits |= {"object": dict, "array": list}
    if not isinstance(value, fits[kind]):
        return False
    if kind == "integer":
        return bool(-(2**63) <= value < 2**63)
    if is_bytes(node):
        return is_base64(value)
    match node.get("format"):
        case "date-time":
            return moment(value) is not None
        case "date":
            return re.fullmatch(DATE, str(value)) is not None and _day(str(value))
        case "uuid" | "time" as name:
            return has_format(value, name)
        case _:
            return True


def _day(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def moment(text: Any) -> datetime | None:
    """The time in an RFC 3339 text, to the microsecond; None if it is none."""
    if not isinstance(text, str) or not re.fullmatch(DATE_TIME, text):
        return None
    body, fraction, offset = re.fullmatch(r"([^.Z+]{10}T[\d:]{8})(?:\.(\d+))?(.+)", text).groups()  # type: ignore[union-attr]
    try:
        found = datetime.fromisoformat(f"{body}.{(fraction or '0')[:6]:0<6}{offset.replace('Z', '+00:00')}")
        return found.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
