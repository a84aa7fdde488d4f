"""Validates an event against its contract before it is sent.

This is at least as strict as landing: an ``integer`` is a JSON integer of 64 bits (``5.0`` isn't one), a ``number`` is
within the range of a double, and a ``date-time`` has upper case ``T`` and ``Z``, a year from 0001 to 9999 (in UTC, too)
and no leap second, because Spark's parser requires the same. A decimal is checked as it is written, and a map must have
each key once. An event that passes may still be quarantined for its time (absurd, or in the future), never for its
shape.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import jsonschema_rs

from anabranch.contracts.fields.decimals import (
    EXACT_DECODER,
    exact_value,
    has_decimals,
    is_decimal,
    limit,
    problem,
    type_name,
)
from anabranch.contracts.fields.field_types import has_maps, is_map, key_text
from anabranch.contracts.fields.null_values import may_be_null
from anabranch.contracts.fields.pattern_match import SIZE_LIMIT, formats_in, restriction, too_large
from anabranch.contracts.fields.text_formats import format_checks, is_bytes
from anabranch.contracts.model.contract import Contract, sent_name
from anabranch.contracts.sending._envelope import SPEC_VERSION
from anabranch.core.errors import BadInput
from anabranch.core.text import strict_json

_INT64 = 2**63
_OFFSET = r"(Z|[+-](0\d|1[0-7]):[0-5]\d|[+-]18:00)"
_AHEAD = r"(0[1-9]|1\d|00:(0[1-9]|[1-5]\d))"
_DATE_TIME = {
    "type": "string",
    "format": "date-time",
    "pattern": rf"^\d{{4}}-\d{{2}}-\d{{2}}T\d{{2}}:\d{{2}}:[0-5]\d(\.\d{{1,9}})?{_OFFSET}$",
    "not": {"type": "string", "pattern": rf"^(0000|0001-01-01T.*\+{_AHEAD}|9999-12-31T.*-{_AHEAD})"},
}
"""``text_formats.DATE_TIME`` in the words of the linear engine, which is faster than a call of Python for each time."""
_DATE = {"pattern": r"^\d{4}-\d{2}-\d{2}$", "not": {"type": "string", "pattern": "^0000"}}
_WRITTEN = {"date-time": {key: _DATE_TIME[key] for key in ("pattern", "not")}, "date": _DATE}
_TEXT = {"type": "string", "minLength": 1}


def refused(field: str, reason: str, *, event_type: str, event_id: str) -> BadInput:
    """The error for an event that must not be sent; ``field`` is a path like ``data.flight``."""
    return BadInput(
        "EVENT_REFUSED",
        f"event {event_id!r} of type {event_type!r}: {field}: {reason}",
        state="the event was not sent; events sent before it are not affected",
        next_step=f"correct {field}, or write a new version of the contract",
        field=field,
        reason=reason,
        event_type=event_type,
        event_id=event_id,
    )


class EventValidator:
    """Compiled contracts by ``dataschema``. Construction takes milliseconds, a check microseconds."""

    def __init__(self, contracts: Iterable[Contract]) -> None:
        given = {contract.uri: contract for contract in contracts}
        self._compiled = {uri: compiled(envelope_schema(contract)) for uri, contract in given.items()}
        self._with_text = {uri: contract for uri, contract in given.items() if _needs_text(contract)}

    def check(self, body: Any) -> None:
        """Check a decoded event, envelope and data. Raises BadInput EVENT_REFUSED for the first wrong field.

        A float stands for the text that ``json`` writes for it: ``0.1 + 0.2`` has 17 digits behind the point.
        """
        self._check_shape(body)
        self._check_text(body)

    def _check_shape(self, body: Any) -> None:
        uri = body.get("dataschema") if isinstance(body, Mapping) else None
        validator = self._compiled.get(uri) if isinstance(uri, str) else None
        if validator is None:
            raise self._without_contract(body, uri)
        if (problem := shape_problem(validator, body)) is not None:
            path, why = problem
            raise refused(path or "event", why, event_type=_text(body, "type"), event_id=_text(body, "id"))

    def check_bytes(self, value: bytes) -> None:
        """Check the bytes of a record. Raises BadInput EVENT_REFUSED."""
        try:
            body = strict_json.loads(value.decode())
        except ValueError as error:
            raise refused("event", f"not JSON: {error}", event_type="", event_id="") from None
        self._check_shape(body)
        if body["dataschema"] in self._with_text:
            self._check_text(strict_json.loads(value.decode(), EXACT_DECODER))

    def _check_text(self, body: Any) -> None:
        contract = self._with_text.get(body["dataschema"])
        for field, reason in _problems_of_text(body["data"], contract.schema, "data") if contract else ():
            raise refused(field, reason, event_type=_text(body, "type"), event_id=_text(body, "id"))

    def _without_contract(self, body: Any, uri: object) -> BadInput:
        if not isinstance(body, Mapping):
            return refused("event", f"must be a JSON object, not {type(body).__name__}", event_type="", event_id="")
        known = ", ".join(sorted(self._compiled))
        return refused(
            "dataschema",
            f"{uri!r} is none of {known}",
            event_type=_text(body, "type"),
            event_id=_text(body, "id"),
        )


def envelope_schema(contract: Contract) -> dict[str, Any]:
    """The JSON Schema (draft 4) of a whole event whose data follows ``contract``."""
    optional_time = {**_DATE_TIME, "type": ["string", "null"]}
    return {
        "type": "object",
        "required": ["specversion", "id", "source", "type", "subject", "time", "dataschema", "data"],
        "properties": {
            "specversion": {"enum": [SPEC_VERSION]},
            "id": _TEXT,
            "source": _TEXT,
            "type": {"enum": [contract.name]},
            "subject": _TEXT,
            "dataschema": {"enum": [contract.uri]},
            "time": _DATE_TIME,
            "senttime": optional_time,
            "receivedtime": optional_time,
            "data": data_schema(contract),
        },
    }


def compiled(schema: dict[str, Any]) -> jsonschema_rs.Draft4Validator:
    """A schema, ready to check. Raises BadDefinition CONTRACT_SCHEMA if a pattern is too large."""
    formats = {**format_checks(), **formats_in(schema)}
    linear = jsonschema_rs.RegexOptions(size_limit=SIZE_LIMIT)
    try:
        return jsonschema_rs.Draft4Validator(schema, validate_formats=True, formats=formats, pattern_options=linear)
    except jsonschema_rs.ValidationError as error:
        raise too_large(str(error.instance)) from None


def data_schema(contract: Contract) -> dict[str, Any]:
    """The JSON Schema (draft 4) of the data that follows ``contract``, by the names of its records."""
    return _strict(contract.schema, optional=False)


def _strict(node: Mapping[str, Any], *, optional: bool) -> dict[str, Any]:
    """One node of a contract as JSON Schema draft 4, whose integers have no fraction; an optional field may be null.
    Of a decimal it knows the type only."""
    if is_decimal(node):
        return {"type": [node["type"], "null"] if optional else node["type"]}
    strict = {k: v for k, v in node.items() if k in {"type", "enum", "minimum", "maximum", "format"}}
    if node["type"] == "integer":
        strict["minimum"] = max(node.get("minimum", -_INT64), -_INT64)
        strict["maximum"] = min(node.get("maximum", _INT64 - 1), _INT64 - 1)
    if node["type"] == "number":  # of digits alone there may be 400
        strict.setdefault("minimum", -sys.float_info.max)
        strict.setdefault("maximum", sys.float_info.max)
    if is_bytes(node):
        strict["format"] = "base64"
    also = [restriction(node["pattern"])] if "pattern" in node else []
    if node.get("format") in _WRITTEN:
        also.append(_WRITTEN[node["format"]])
    if also:
        strict["allOf"] = also
    if is_map(node):
        strict["additionalProperties"] = _inside(node["additionalProperties"])
    elif node["type"] == "object":
        required, properties = set(node.get("required", ())), node.get("properties", {})
        if required:
            strict["required"] = sorted(sent_name(name, properties[name]) for name in required)
        strict["properties"] = {
            sent_name(name, child): _strict(child, optional=name not in required) for name, child in properties.items()
        }
    if node["type"] == "array":
        strict["items"] = _inside(node["items"])
    if optional:
        strict["type"] = [node["type"], "null"]
        if "enum" in strict:
            strict["enum"] = [*strict["enum"], None]
    return strict


def _inside(node: Mapping[str, Any]) -> dict[str, Any]:
    """The same for items of an array or values of a map."""
    return _strict(node, optional=may_be_null(node))


def shape_problem(validator: jsonschema_rs.Draft4Validator, content: Any) -> tuple[str, str] | None:
    """The path of the first field of a decoded record that breaks a schema, and why; None if nothing does."""
    try:
        if validator.is_valid(content):
            return None
        error = next(iter(validator.iter_errors(content)))
    except UnicodeEncodeError:
        return "", r"it holds half of a surrogate pair (\ud800 to \udfff), which no text can hold"
    path = [str(part) for part in error.instance_path]
    if isinstance(error.kind, jsonschema_rs.ValidationErrorKind.Required):
        path.append(error.kind.property)
    if isinstance(error.kind, jsonschema_rs.ValidationErrorKind.Not):  # only times and dates have one
        return ".".join(path), f"{error.instance!r} is outside of the years 1 to 9999 (in UTC)"
    return ".".join(path), error.message


def text_problem(contract: Contract, value: bytes, *, envelope: bool) -> tuple[str, str] | None:
    """What only the text of a record, whose shape was checked, shows: the first decimal that can't be stored exactly or
    is beyond its limits, or the first key that a map has twice. Its path, and why. ``envelope``: whether the record is
    an event, with its data below ``data``."""
    if not _needs_text(contract):
        return None
    content = strict_json.loads(value.decode(), EXACT_DECODER)
    data, path = (content["data"], "data") if envelope else (content, "")
    found = _problems_of_text(data, contract.schema, path)
    return next(((path.removeprefix("."), why) for path, why in found), None)


def _needs_text(contract: Contract) -> bool:
    return has_decimals(contract.schema) or has_maps(contract.schema)


def _problems_of_text(value: Any, node: Mapping[str, Any], path: str) -> Iterator[tuple[str, str]]:
    if value is None:
        return
    if is_decimal(node):
        if why := problem(value, node):
            yield path, f"is no {type_name(node)}: {why}"
            return
        low, high = limit(node, "minimum"), limit(node, "maximum")
        if low is not None and exact_value(value) < low:
            yield path, f"is below {node['minimum']}"
        if high is not None and exact_value(value) > high:
            yield path, f"is above {node['maximum']}"
    for name, child in node.get("properties", {}).items():
        sent = sent_name(name, child)
        yield from _problems_of_text(value.get(sent), child, f"{path}.{sent}")
    for n, item in enumerate(value) if "items" in node else ():
        yield from _problems_of_text(item, node["items"], f"{path}.{n}")
    if is_map(node):
        yield from ((path, f"has the key {key_text(key)} twice") for key in getattr(value, "repeated", ()))
        for key, each in value.items():
            yield from _problems_of_text(each, node["additionalProperties"], f"{path}.{key}")


def _text(body: Mapping[str, Any], name: str) -> str:
    return str(body.get(name, ""))
