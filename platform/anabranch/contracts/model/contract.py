"""Contracts: the schema of one version of one event type.

The schema is JSON Schema (2020-12), restricted to types that every engine has: objects, maps (objects with
``additionalProperties`` and no ``properties``: any names, values of one type), arrays of one type,
``string`` (also with format ``date-time``, ``date``, ``time`` or ``uuid``), ``integer`` (64 bits), ``number`` (double),
``boolean``, bytes (``contentEncoding: base64`` of a string: ``contracts.fields.text_formats``), and decimals, in a
string or a number (``contracts.fields.decimals``), with ``required``, ``enum``,
``minimum``, ``maximum`` and ``pattern`` (``contracts.fields.restrictions``). A field that isn't required may be
absent or null, and so may items and values whose type is written ``["string", "null"]``
(``contracts.fields.null_values``); fields that the schema doesn't name are allowed and kept in the raw bytes only.
``sent_as`` is a field's name in the records, where that isn't its own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from anabranch.contracts.fields.decimals import check_decimal
from anabranch.contracts.fields.field_types import is_map
from anabranch.contracts.fields.null_values import in_memory
from anabranch.contracts.fields.restrictions import check_restrictions
from anabranch.core.errors import BadDefinition

URN = "urn:anabranch:contract:"
"""What a ``dataschema`` of ours begins with."""
EVENT_TYPE = re.compile(r"[a-z][a-z0-9_]{0,39}(\.[a-z][a-z0-9_]{0,39}){1,3}")
MOST_VERSION = 2**31 - 1
"""Landing holds versions in 32 bits."""
FIELD_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
SENT_NAME = re.compile(r"""[^"'`\\\x00-\x1f\ud800-\udfff]{1,200}""")
_SCALARS = {"string", "integer", "number", "boolean"}
_MAP = '{"type": "object", "additionalProperties": {"type": "string"}}'
_OF_ONE_TYPE = {"properties": "object", "required": "object", "items": "array"}
_INSIDE = {"array": "elements", "map": "values"}
_KEYWORDS = {
    "type", "properties", "required", "items", "format", "enum", "minimum", "maximum", "pattern",
    "description", "title", "$schema", "sent_as", "precision", "scale", "additionalProperties",
    "nullable", "contentEncoding",
}  # fmt: skip


class Compatibility(StrEnum):
    """Which readers a new version of a contract must not break."""

    BACKWARD = "backward"
    FORWARD = "forward"
    FULL = "full"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Contract:
    """One version of one event type. Raises BadDefinition if its name, version or schema isn't allowed.

    ``schema``: each node has one type, and ``nullable`` where it is written with null (``in_memory``)."""

    name: str
    version: int
    schema: Mapping[str, Any] = field(hash=False)
    compatibility: Compatibility = Compatibility.BACKWARD

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not EVENT_TYPE.fullmatch(self.name):
            raise BadDefinition(
                "CONTRACT_NAME",
                f"{self.name!r} is no event type",
                next_step="write it like flight.departed; CloudEvents(types=...), or a TypeField, has what is sent",
            )
        whole = isinstance(self.version, int) and not isinstance(self.version, bool)
        if not whole or not 1 <= self.version <= MOST_VERSION:
            raise BadDefinition(
                "CONTRACT_VERSION",
                f"{self.name}: version {self.version!r} is no whole number from 1 to {MOST_VERSION:,}",
                next_step="number versions from 1 on",
            )
        if self.compatibility not in list(Compatibility):
            what = f"{self.name} v{self.version}: compatibility {self.compatibility!r} is no rule"
            raise BadDefinition("CONTRACT_VERSION", what, next_step=f"give one of {', '.join(Compatibility)}")
        schema: Any = self.schema
        if (
            not isinstance(schema, Mapping)
            or schema.get("type") != "object"
            or isinstance(schema.get("additionalProperties"), Mapping)
        ):
            raise BadDefinition(
                "CONTRACT_SCHEMA",
                f"{self.name} v{self.version}: the data must be an object, and no map",
                next_step="describe an object with named fields",
            )
        data = f"{self.name} v{self.version}: data"
        try:
            object.__setattr__(self, "schema", in_memory(data, schema))
            for path, node in _nodes(data, self.schema):
                _check_node(path, node)
        except RecursionError:
            raise _wrong(
                f"{data}: nested too deeply", "leave the deepest parts out: they stay in the raw bytes"
            ) from None

    @property
    def uri(self) -> str:
        """The value of an event's ``dataschema``, which names its contract."""
        return f"{URN}{self.name}:{self.version}"

    @property
    def column(self) -> str:
        """The name of this event type's struct column in landing."""
        return self.name.replace(".", "_")

    @property
    def fields(self) -> Mapping[str, Mapping[str, Any]]:
        properties: Mapping[str, Mapping[str, Any]] = self.schema.get("properties", {})
        return properties

    @property
    def required(self) -> frozenset[str]:
        return frozenset(self.schema.get("required", ()))

    @staticmethod
    def from_file(path: Path) -> Contract:
        """Read a contract from ``NAME.vN.json``: an object with name, version, compatibility and schema. Raises
        BadDefinition DECLARATION_UNREADABLE, or what the contract itself raises, with the file."""
        content = _content(path)
        try:
            return Contract(
                name=content["name"],
                version=content["version"],
                schema=content["schema"],
                compatibility=Compatibility(content.get("compatibility", "backward")),
            )
        except BadDefinition as error:
            what = f"{path}: {error.what}"
            raise BadDefinition(error.code, what, state=error.state, next_step=error.next_step) from None


def _content(path: Path) -> Mapping[str, Any]:
    try:
        content = json.loads(path.read_text())
    except OSError as error:
        raise _unreadable(path, f"it can't be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise _unreadable(path, f"it is no JSON: {error}") from None
    if not isinstance(content, dict):
        raise _unreadable(path, "it is no JSON object")
    if missing := [name for name in ("name", "version", "schema") if name not in content]:
        raise _unreadable(path, f"{' and '.join(missing)} missing")
    if (rule := content.get("compatibility", "backward")) not in list(Compatibility):
        raise _unreadable(path, f"compatibility {rule!r} is none of {', '.join(Compatibility)}")
    return content


def _unreadable(path: Path, why: str) -> BadDefinition:
    return BadDefinition(
        "DECLARATION_UNREADABLE",
        f"{path}: {why}",
        next_step='write {"name": "flight.departed", "version": 1, "schema": {"type": "object", "properties": {...}}}',
        file=str(path),
    )


def sent_name(name: str, node: Mapping[str, Any]) -> str:
    """The name that a field has in the records."""
    return str(node.get("sent_as", name))


def sent_path(schema: Mapping[str, Any], path: str) -> list[str]:
    """The names in the records on the way to a field; ``path`` is that of the contract (``customer.id``)."""
    found, node = list[str](), schema
    for name in path.split("."):
        node = node["properties"][name]
        found.append(sent_name(name, node))
    return found


def _nodes(path: str, node: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    yield path, node
    known, sent_by = dict[str, str](), dict[str, str]()
    for name, child in node.get("properties", {}).items():
        if not FIELD_NAME.fullmatch(name):
            raise _wrong(
                f"{path}.{name}: names of fields may hold the letters A to Z, digits and _ only",
                'name it so, and say what it is called in the records: "sent_as": "..."',
            )
        if not isinstance(child.get("sent_as", name), str) or not SENT_NAME.fullmatch(sent := sent_name(name, child)):
            raise _wrong(
                f"{path}.{name}: sent_as is {child['sent_as']!r}, which no field can be read by",
                "give its name in the records, without quotes, backslashes and control characters",
            )
        if (other := sent_by.setdefault(sent, name)) != name:
            raise _wrong(
                f"{path}: {other} and {name} are both sent as {sent!r}",
                "leave one of them out: a view can use a field twice",
            )
        if (other := known.setdefault(name.lower(), name)) != name:
            raise _wrong(
                f"{path}: {other} and {name} differ in case only, and engines can't tell such columns apart",
                "leave one of them out of the contract: it stays in the raw bytes",
            )
        yield from _nodes(f"{path}.{name}", child)
    if "items" in node:
        yield from _nodes(f"{path}[]", node["items"])
    if is_map(node):
        yield from _nodes(f"{path}.*", node["additionalProperties"])


def _check_node(path: str, node: Mapping[str, Any]) -> None:
    _check_form(path, node)
    if "additionalProperties" in node:
        _check_map(path, node)
    unknown = set(node) - _KEYWORDS
    if unknown:
        or_null = '. What may be null is written "type": ["string", "null"]' if unknown & {"anyOf", "oneOf"} else ""
        raise _wrong(
            f"{path}: landing can't check {', '.join(sorted(unknown))}",
            f"leave them out of the contract; a view or an expectation can check more{or_null}",
        )
    kind = node.get("type")
    for keyword, owner in _OF_ONE_TYPE.items():
        if keyword in node and kind != owner:
            raise _wrong(
                f"{path}: {keyword} of a {kind}",
                f"leave it out: {keyword} {'are' if keyword == 'properties' else 'is'} for an {owner}",
            )
    unchecked = set(node) & {"required", "enum", "minimum", "maximum", "pattern"}
    if unchecked and (around := "array" if "[]" in path else "map" if ".*" in path else ""):
        raise _wrong(
            f"{path}: {sorted(unchecked)} isn't checked inside of {around}s",
            f"describe the {around} as a whole, or check its {_INSIDE[around]} in a view",
        )
    if kind == "object":
        missing = set(node.get("required", ())) - set(node.get("properties", {}))
        if missing:
            raise _wrong(
                f"{path}: required but not described: {sorted(missing)}",
                "describe them under properties, or don't require them",
            )
    elif kind == "array":
        if "items" not in node:
            raise _wrong(f"{path}: an array needs items of one type", "give items one type")
    elif not isinstance(kind, str) or kind not in _SCALARS:
        raise _wrong(
            f"{path}: type {kind!r} is none of {sorted(_SCALARS)}, object, array",
            "use one of these",
        )
    check_decimal(path, node)
    check_restrictions(path, node)
    if kind == "object" and not node.get("properties") and not is_map(node):
        raise _wrong(
            f"{path}: an object without fields, which no column can hold",
            "describe a field of it, which needn't be there, or leave it out: it stays in the raw bytes. A map is "
            f"written {_MAP}",
        )


def _check_form(path: str, node: Mapping[str, Any]) -> None:
    """Fields, items and required names must be what the other checks take them for."""
    fields, required = node.get("properties", {}), node.get("required", ())
    described = [(f"{path}: properties", fields)]
    if isinstance(fields, Mapping):
        described += [(f"{path}.{name}", child) for name, child in fields.items()]
    if "items" in node:
        described.append((f"{path}[]", node["items"]))
    for what, given in described:
        if not isinstance(given, Mapping):
            raise _wrong(f"{what}: {given!r} is no object", 'write a field as {"type": "string"}')
    if not isinstance(required, list | tuple) or not all(isinstance(name, str) for name in required):
        raise _wrong(
            f"{path}: required: {required!r} is no list of names",
            'list the names of fields: "required": ["id"]',
        )


def _check_map(path: str, node: Mapping[str, Any]) -> None:
    values = node["additionalProperties"]
    if not isinstance(values, Mapping):
        raise _wrong(
            f"{path}: landing can't check additionalProperties: {json.dumps(values)}",
            f"leave it out: fields that aren't named are always allowed. A map gives a type: {_MAP}",
        )
    if "properties" in node or "required" in node:
        raise _wrong(
            f"{path}: it has named fields and additionalProperties, so it is neither an object nor a map",
            f"describe named fields only, or a map only: {_MAP}",
        )
    if node.get("type") != "object":
        raise _wrong(
            f"{path}: additionalProperties of a {node.get('type')!r}",
            f"write a map as {_MAP}",
        )


def _wrong(what: str, next_step: str) -> BadDefinition:
    return BadDefinition("CONTRACT_SCHEMA", what, next_step=next_step)
