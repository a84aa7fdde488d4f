"""Checks the mapping of a topic without envelopes against its contracts, when the topic is declared."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import Final
from zoneinfo import available_timezones

from anabranch.contracts.fields.decimals import is_decimal
from anabranch.contracts.fields.field_types import Node, is_map, kind
from anabranch.contracts.fields.registered_schema import RegisteredSchema
from anabranch.contracts.fields.text_formats import is_bytes, is_plain
from anabranch.contracts.model._declared_types import wrong_parts
from anabranch.contracts.model.contract import URN, Contract, sent_name
from anabranch.contracts.model.records import (
    EPOCH_SCALE,
    PART,
    PATTERNS,
    UNITS,
    Avro,
    CloudEvents,
    Header,
    Mapped,
    Part,
    Raw,
    Record,
    Records,
    TimeField,
    is_field,
    node_at,
)
from anabranch.core.errors import BadDefinition

_COUNTS = (
    f"an integer, a number, a decimal of at most {EPOCH_SCALE} digits behind the point, or a plain string of digits"
)
_NO_ZONES: Final = {"localtime", "posixrules", "Factory", "ROC"}
"""Files of the database of time zones that are no zones of Java."""
_NO_ZONE_FOLDERS: Final = ("right/", "posix/")
_JAVA_READS: Final = {*PATTERNS, "MMMM", "SSSSSSSSS"}
"""The letters of a format that stand side by side. Two parts together have another meaning in Java, or none."""


def check_mapping(topic: str, mapping: Records, contracts: Sequence[Contract]) -> None:
    """Raises BadDefinition MAPPING, which names the topic, the mapped part and what is wrong with it."""
    found = _event_problems(mapping, contracts) if isinstance(mapping, CloudEvents) else problems(mapping, contracts)
    for part, problem in chain(wrong_parts(mapping), found):
        raise BadDefinition(
            "MAPPING",
            f"topic {topic}: {part}: {problem}",
            next_step="correct the mapping, or the contract",
            part=part,
        )


def _event_problems(events: CloudEvents, contracts: Sequence[Contract]) -> Iterator[tuple[str, str]]:
    """The same for records that have an envelope, as others write it."""
    types, versions = {contract.name for contract in contracts}, {contract.version for contract in contracts}
    for sent, name in events.types.items():
        if name not in types:
            yield "types", f"{sent!r} is named {name}, which is no event type of the topic"
    if isinstance(events.schemas, str):
        if events.schemas != "any":
            yield "schemas", f'{events.schemas!r} is none: give versions by dataschema, or "any"'
    else:
        for sent, version in events.schemas.items():
            if sent.startswith(URN):
                yield "schemas", f"{sent} names a contract and its version already"
            elif version not in versions:
                yield "schemas", f"{sent!r} is version {version}, which no contract of the topic has"
    if events.time not in (None, Record.APPEND_TIME):
        yield "time", "give Record.APPEND_TIME, for events without a time, or None"


def problems(mapping: Mapped, contracts: Sequence[Contract]) -> Iterator[tuple[str, str]]:
    """The part of the mapping that is wrong, and why."""
    if (mapping.id is not Record.OFFSET and not mapping.id_parts) or {*mapping.id_parts} & {
        Record.OFFSET,
        Record.APPEND_TIME,
    }:
        yield "id", "give a field, a Header, Record.KEY, several of these, or Record.OFFSET"
    if mapping.time in (Record.KEY, Record.OFFSET):
        yield "time", "give a field, or Record.APPEND_TIME"
    if mapping.subject in (Record.OFFSET, Record.APPEND_TIME):
        yield "subject", "give a field, a Header, Record.KEY, or None"
    named: list[tuple[str, Part | None]] = [("id", part) for part in mapping.id_parts]
    named += [("subject", mapping.subject), ("type", mapping.type.path if mapping.type else None)]
    yield from ((name, "a header needs a name") for name, part in named if part == Header(""))
    for path in mapping.id_fields:
        yield from _typed("id", path, contracts, {"string", "integer"})
    if is_field(mapping.subject):
        yield from _typed("subject", str(mapping.subject), contracts, {"string", "integer"})
    yield from _type_problems(mapping, contracts)
    yield from _format_problems(mapping, contracts)
    if (time := mapping.time_field) is not None:
        yield from _time_problems(time, contracts)


def _type_problems(mapping: Mapped, contracts: Sequence[Contract]) -> Iterator[tuple[str, str]]:
    types = {contract.name for contract in contracts}
    if mapping.type is None:
        if len(types) > 1:
            yield (
                "type",
                f"the topic has several event types ({', '.join(sorted(types))}): say which field names it",
            )
        return
    if is_field(mapping.type.path):
        yield from _typed("type", str(mapping.type.path), contracts, {"string"})
    for value, name in mapping.type.names.items():
        if name not in types:
            yield "type", f"{value!r} is named {name}, which is no event type of the topic"


def _format_problems(mapping: Mapped, contracts: Sequence[Contract]) -> Iterator[tuple[str, str]]:
    """A format with one schema for all records must hold what the contracts ask for."""
    shape: Node
    left_out: Mapping[str, str] = {}
    match mapping:
        case Raw():
            shape = {"properties": {mapping.form: {"type": "string"}}}
        case Avro(schema=str(text)) if text:
            try:
                from anabranch.contracts.formats import shape_of

                found = shape_of(RegisteredSchema("avro", text))
                shape, left_out = found.node, dict(line.split(": left out, ", 1) for line in found.left_out)
            except ModuleNotFoundError:  # a reader of views needs no decoder; landing does
                return
            except ValueError as error:
                yield "schema", str(error)
                return
        case _:
            return
    for contract in contracts:
        misfits = _misfits(contract.schema, shape, left_out)
        yield from (("schema", f"{contract.name} v{contract.version}: {why}") for why in misfits)


def _misfits(declared: Node, shape: Node, left_out: Mapping[str, str], path: str = "data") -> Iterator[str]:
    """Where a declared node asks for what the documents of a shape never hold. ``left_out``: why the shape lacks a
    field of the schema, by its path."""
    for name, node in declared.get("properties", {}).items():
        sent = sent_name(name, node)
        at, found = f"{path}.{sent}", shape.get("properties", {}).get(sent)
        if found is None and (why := left_out.get(at.removeprefix("data.").replace("[].items", "[]"))):
            yield f"{at}: {why}: leave it out of the contract, its values stay in the raw bytes"
        elif found is None:
            yield f"the schema has no {at}, or none that a column can hold"
        elif node["type"] != found["type"] and (node["type"], found["type"]) != ("number", "integer"):
            what = "a decimal as a number" if is_decimal(found) else f"a {_word(found)}"
            yield f"{at} is {what} in the schema, and a {_word(node)} in the contract"
        elif is_map(node) != is_map(found):
            yield f"{at} is a {_word(found)} in the schema, and a {_word(node)} in the contract"
        elif is_map(node):
            yield from _misfits(_as_field(node), _as_field(found), left_out, at)
        elif node["type"] == "object":
            yield from _misfits(node, found, left_out, at)
        elif node["type"] == "array":
            yield from _misfits(_as_item(node), _as_item(found), left_out, f"{at}[]")


def _as_field(of_map: Node) -> Node:
    """An object with one field in place of a map's values."""
    return {"properties": {"*": of_map["additionalProperties"]}}


def _as_item(of_array: Node) -> Node:
    """The same for an array's items."""
    return {"properties": {"items": of_array["items"]}}


def _word(node: Node) -> str:
    return "map" if is_map(node) else str(node["type"])


def _map_on_the_way(contract: Contract, path: str) -> str | None:
    """The path of the first map on the way to a field; None if there is none."""
    names = path.split(".")
    for depth in range(1, len(names)):
        node = node_at(contract.schema, above := ".".join(names[:depth]))
        if node is not None and is_map(node):
            return above
    return None


def _unknown(contract: Contract, path: str) -> str:
    if above := _map_on_the_way(contract, path):
        return f"{above} is a map in {contract.name} v{contract.version}, and no part can come from its values"
    return f"{contract.name} v{contract.version} has no field {path}"


def _typed(part: str, path: str, contracts: Sequence[Contract], allowed: set[str]) -> Iterator[tuple[str, str]]:
    for contract in contracts:
        node = node_at(contract.schema, path)
        if node is None:
            yield part, _unknown(contract, path)
        elif node["type"] not in allowed or not is_plain(node):
            wanted = " or ".join(sorted(allowed))
            yield part, f"{path} is a {kind(node)} in {contract.name} v{contract.version}, not a {wanted}"


def _may_count_units(node: Node) -> bool:
    """Whether its values may be a time since 1970."""
    if is_decimal(node):
        return int(node["scale"]) <= EPOCH_SCALE
    return node["type"] in ("integer", "number", "string") and "format" not in node and not is_bytes(node)


def _time_problems(time: TimeField, contracts: Sequence[Contract]) -> Iterator[tuple[str, str]]:
    for contract in contracts:
        node = node_at(contract.schema, time.path)
        where = f"{contract.name} v{contract.version}"
        if node is None:
            yield "time", _unknown(contract, time.path)
        elif time.unit and not _may_count_units(node):
            yield "time", f"{time.path} has a unit, but is a {kind(node)} in {where}: use {_COUNTS}"
        elif time.format and (node["type"] != "string" or "format" in node or is_bytes(node)):
            yield "time", f"{time.path} has a format, but isn't a plain string in {where}"
        elif not time.unit and not time.format and node.get("format") != "date-time":
            yield "time", f"{time.path} isn't a date-time in {where}: give its unit or its format"
    if time.unit and time.format:
        yield "time", "give a unit or a format, not both"
    if time.unit and time.unit not in UNITS:
        yield "time", f"unit {time.unit!r} is none of {', '.join(UNITS)}"
    if time.format and not _is_format(time.format):
        parts = f"{', '.join(PATTERNS)}, and texts in single quotes, which aren't empty; []{{}}# must be in one"
        yield "time", f"format {time.format!r}: parts are {parts}"
    elif time.format and "yyyy" not in PART.findall(time.format):
        yield "time", f"format {time.format!r} has no year (yyyy): each event would be of 1970"
    if time.zone != "UTC" and (not isinstance(time.zone, str) or time.zone not in _zones()):
        yield "time", f"{time.zone!r} is no time zone"


def _is_format(pattern: str) -> bool:
    """Whether Java reads it as Python does. Two single quotes are one in Java, also inside of a quoted text."""
    letters = re.findall(r"([A-Za-z])(\1*)", re.sub("'[^']*'", "'", pattern))
    known = all(first + more in _JAVA_READS for first, more in letters)
    return known and "''" not in pattern and "".join(PART.findall(pattern)) == pattern


@cache
def _zones() -> frozenset[str]:
    """The time zones that Java knows by the same names. Some 600 files are looked at once."""
    found = available_timezones() - _NO_ZONES
    return frozenset(zone for zone in found if not zone.startswith(_NO_ZONE_FOLDERS))
