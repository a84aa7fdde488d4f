"""Values of maps, read as naively as it can be: `json`, the contract as written, and not a line of the platform."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any

from support.base64_texts import bytes_in
from support.naive_reader import Written, decimal_of
from support.text_formats import is_time_of_day, is_uuid

Node = Mapping[str, Any]
_KEPT = {None: lambda text: True, "uuid": is_uuid, "time": is_time_of_day}
"""Formats whose texts stay as they are."""
LARGEST = 1.7976931348623157e308
"""The largest double."""


class Broken(Exception):
    """A value isn't what its contract says."""


class Pairs(list[tuple[str, Any]]):
    """An object as it is written: names may repeat."""


def data_of(value: bytes, schema: Node) -> Any:
    """The data of a valid record as landing has it; None for a record that must be quarantined."""
    try:
        content = json.loads(value, object_pairs_hook=Pairs, parse_float=Written)
        return typed(content, schema)
    except (Broken, ValueError):
        return None


def typed(value: Any, node: Node) -> Any:
    """A value, maps as dicts. Raises Broken."""
    if "additionalProperties" in node:
        found = _pairs(value)
        names = [name.encode(errors="replace").decode() for name, _ in found]
        if len(set(names)) < len(names):
            raise Broken
        return dict(zip(names, (_inside(each, node["additionalProperties"]) for _, each in found), strict=True))
    kind = node["type"]
    if kind == "object":
        given = dict(_pairs(value))
        sent = {name: child.get("sent_as", name) for name, child in node["properties"].items()}
        return {
            name: None if given.get(sent[name]) is None else typed(given[sent[name]], child)
            for name, child in node["properties"].items()
        }
    if kind == "array":
        if not isinstance(value, list) or isinstance(value, Pairs):
            raise Broken
        return [_inside(each, node["items"]) for each in value]
    return _scalar(value, node, kind)


def _pairs(value: Any) -> Sequence[tuple[str, Any]]:
    if not isinstance(value, Pairs):
        raise Broken
    return value


def or_null(node: Node) -> Node | None:
    """The node of the values that aren't null, of one that says ``["string", "null"]``; None of any other."""
    types = node["type"]
    if isinstance(types, str):
        return None
    (one,) = [each for each in types if each != "null"]
    return {**node, "type": one}


def _inside(value: Any, node: Node) -> Any:
    if (firm := or_null(node)) is not None:
        return None if value is None else typed(value, firm)
    if value is None:
        raise Broken
    return typed(value, node)


def _scalar(value: Any, node: Node, kind: str) -> Any:
    if node.get("format") == "decimal":
        found = decimal_of(value, node)
        if found is None:
            raise Broken
        return found
    number = isinstance(value, int | float) and not isinstance(value, bool)
    match kind:
        case "string" if isinstance(value, str) and "contentEncoding" in node:
            if (raw := bytes_in(value)) is None:
                raise Broken
            return raw
        case "string" if isinstance(value, str):
            return _text(value, node.get("format"))
        case "integer" if number and isinstance(value, int) and -(2**63) <= value < 2**63:
            return value
        case "number" if number and -LARGEST <= value <= LARGEST:
            return float(value)
        case "boolean" if isinstance(value, bool):
            return value
    raise Broken


def _text(value: str, form: str | None) -> Any:
    if form in _KEPT:
        if not _KEPT[form](value):
            raise Broken
        return value.encode(errors="replace").decode()
    try:
        if form == "date":
            found = date.fromisoformat(value)
            if found.isoformat() != value:
                raise Broken
            return found
        if len(value) < 20 or value[10] != "T":
            raise Broken
        return datetime.fromisoformat(value).astimezone(UTC)
    except ValueError:
        raise Broken from None
