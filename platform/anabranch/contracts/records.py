"""How the records of a topic are read: as CloudEvents, or as plain JSON with a mapping.

The mapping says where plain JSON has what an envelope would say: id, event time, type, subject, source. A field is
named by its path (``customer.id``), and must be a field of every contract of the topic.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from anabranch.contracts.contract import sent_path
from anabranch.contracts.field_types import kind
from anabranch.core.errors import BadDefinition

if TYPE_CHECKING:
    from anabranch.contracts.contract import Contract

UNITS: Final[Mapping[str, int]] = {"s": 1_000_000, "ms": 1_000, "us": 1, "ns": 0}
"""Microseconds of a unit of time; nanoseconds are divided."""
_PATTERNS: Final = {
    "yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S", "SSSSSS": "%f", "SSS": "%f", "XXX": "%z",
}  # fmt: skip
_PART = re.compile(r"yyyy|MM|dd|HH|mm|ss|SSSSSS|SSS|XXX|'[^']*'|[^A-Za-z']")


class Record(StrEnum):
    """Parts of a record besides its value. ``OFFSET`` as an id: a record that was sent twice is two events."""

    KEY = "the record's key"
    OFFSET = "the record's coordinates"
    APPEND_TIME = "the record's timestamp"


@dataclass(frozen=True, slots=True)
class Header:
    """A header of the record, by its name, as UTF-8 text. Of several with the same name the last one counts."""

    name: str


Part = str | Record | Header
"""Where a part of the envelope comes from; a text is the path of a field."""
Headers = Sequence[tuple[str, bytes | None]] | None
"""The headers of a record; names may repeat."""


@dataclass(frozen=True, slots=True)
class TimeField:
    """A field with the event time: a number with its ``unit`` (s, ms, us, ns since 1970), a text with its ``format``
    (``yyyy-MM-dd HH:mm:ss``; parts: yyyy MM dd HH mm ss SSS SSSSSS XXX) and, if that has no offset, its time ``zone``,
    or, without both, a ``date-time`` of the contract."""

    path: str
    unit: str = ""
    format: str = ""
    zone: str = "UTC"


@dataclass(frozen=True, slots=True)
class TypeField:
    """A field or header with the event type. ``names``: the event types by its values, where they differ."""

    path: str | Header
    names: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class CloudEvents:
    """CloudEvents 1.0. Structured mode: a record is a JSON object with the envelope and ``data``. Binary mode, known by
    headers ``ce_...``: the envelope is in the headers, and the record is the data, as JSON."""

    def check(self, topic: str, contracts: Sequence[Contract]) -> None:
        """There is nothing to check: the envelope is part of the format."""


@dataclass(frozen=True, slots=True)
class PlainJson:
    """Each record is a JSON object whose fields are those of the contract.

    ``id``: a field, a ``Header``, ``Record.KEY``, several of these, or ``Record.OFFSET``. ``time``: a field (a
    ``date-time``), a ``TimeField``, or ``Record.APPEND_TIME``. ``type``: a ``TypeField``; may be left out if the topic
    has one event type. ``subject``: a field, a ``Header``, ``Record.KEY``, or None. ``source``: a text, by default the
    topic's name; two records with the same (source, id) are copies of one event.
    """

    id: Part | tuple[Part, ...]
    time: str | TimeField | Record
    type: TypeField | None = None
    subject: Part | None = None
    source: str = ""

    @property
    def id_parts(self) -> tuple[Part, ...]:
        """What makes the id, in order; empty for the record's coordinates."""
        if self.id is Record.OFFSET:
            return ()
        return self.id if isinstance(self.id, tuple) else (self.id,)

    @property
    def id_fields(self) -> tuple[str, ...]:
        """The paths of the fields that the id is made of, in order."""
        return tuple(str(part) for part in self.id_parts if is_field(part))

    @property
    def shares_id(self) -> bool:
        """Whether records with the same key and headers have the same id."""
        return bool(self.id_parts) and not self.id_fields

    @property
    def needed_parts(self) -> tuple[Part, ...]:
        """Where id and type come from: a record that lacks one of them isn't valid."""
        return self.id_parts if self.type is None else (*self.id_parts, self.type.path)

    @property
    def header_names(self) -> tuple[str, ...]:
        """The headers that the mapping reads."""
        parts = (*self.needed_parts, self.subject)
        return tuple(part.name for part in parts if isinstance(part, Header))

    @property
    def time_field(self) -> TimeField | None:
        """None for the record's own timestamp."""
        if isinstance(self.time, Record):
            return None
        return TimeField(self.time) if isinstance(self.time, str) else self.time

    def check(self, topic: str, contracts: Sequence[Contract]) -> None:
        """Raises BadDefinition MAPPING, which names the topic, the mapped part and what is wrong with it."""
        for part, problem in self._problems(contracts):
            raise BadDefinition(
                "MAPPING",
                f"topic {topic}: {part}: {problem}",
                next_step="correct the mapping, or the contract",
                part=part,
            )

    def _problems(self, contracts: Sequence[Contract]) -> Iterator[tuple[str, str]]:
        if (self.id is not Record.OFFSET and not self.id_parts) or {*self.id_parts} & {
            Record.OFFSET,
            Record.APPEND_TIME,
        }:
            yield "id", "give a field, a Header, Record.KEY, several of these, or Record.OFFSET"
        if self.time in (Record.KEY, Record.OFFSET):
            yield "time", "give a field, or Record.APPEND_TIME"
        if self.subject in (Record.OFFSET, Record.APPEND_TIME):
            yield "subject", "give a field, a Header, Record.KEY, or None"
        named: list[tuple[str, Part | None]] = [("id", part) for part in self.id_parts]
        named += [("subject", self.subject), ("type", self.type.path if self.type else None)]
        yield from ((name, "a header needs a name") for name, part in named if part == Header(""))
        for path in self.id_fields:
            yield from _typed("id", path, contracts, {"string", "integer"})
        if is_field(self.subject):
            yield from _typed("subject", str(self.subject), contracts, {"string", "integer"})
        yield from self._type_problems(contracts)
        if (time := self.time_field) is not None:
            yield from _time_problems(time, contracts)

    def _type_problems(self, contracts: Sequence[Contract]) -> Iterator[tuple[str, str]]:
        types = {contract.name for contract in contracts}
        if self.type is None:
            if len(types) > 1:
                yield (
                    "type",
                    f"the topic has several event types ({', '.join(sorted(types))}): say which field names it",
                )
            return
        if is_field(self.type.path):
            yield from _typed("type", str(self.type.path), contracts, {"string"})
        for value, name in self.type.names.items():
            if name not in types:
                yield "type", f"{value!r} is named {name}, which is no event type of the topic"


def is_field(part: Part | None) -> bool:
    """Whether it is the path of a field."""
    return isinstance(part, str) and not isinstance(part, Record)


def last_header(headers: Headers, name: str) -> str | None:
    """The text of the last header of this name; None if there is none, or if it is no UTF-8 text."""
    value = next((value for key, value in reversed(headers or ()) if key == name), None)
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def _typed(part: str, path: str, contracts: Sequence[Contract], allowed: set[str]) -> Iterator[tuple[str, str]]:
    for contract in contracts:
        node = node_at(contract.schema, path)
        if node is None:
            yield part, f"{contract.name} v{contract.version} has no field {path}"
        elif node["type"] not in allowed or "format" in node:
            wanted = " or ".join(sorted(allowed))
            yield part, f"{path} is a {kind(node)} in {contract.name} v{contract.version}, not a {wanted}"


def _time_problems(time: TimeField, contracts: Sequence[Contract]) -> Iterator[tuple[str, str]]:
    for contract in contracts:
        node = node_at(contract.schema, time.path)
        where = f"{contract.name} v{contract.version}"
        if node is None:
            yield "time", f"{where} has no field {time.path}"
        elif time.unit and node["type"] != "integer":
            yield "time", f"{time.path} has a unit, but is a {node['type']} in {where}: use an integer"
        elif time.format and (node["type"] != "string" or "format" in node):
            yield "time", f"{time.path} has a format, but isn't a plain string in {where}"
        elif not time.unit and not time.format and node.get("format") != "date-time":
            yield "time", f"{time.path} isn't a date-time in {where}: give its unit or its format"
    if time.unit and time.format:
        yield "time", "give a unit or a format, not both"
    if time.unit and time.unit not in UNITS:
        yield "time", f"unit {time.unit!r} is none of {', '.join(UNITS)}"
    if time.format and "".join(_PART.findall(time.format)) != time.format:
        yield "time", f"format {time.format!r}: parts are {', '.join(_PATTERNS)}, and texts in single quotes"
    try:
        ZoneInfo(time.zone)
    except (ZoneInfoNotFoundError, ValueError):
        yield "time", f"{time.zone!r} is no time zone"


def node_at(schema: Mapping[str, Any], path: str) -> Mapping[str, Any] | None:
    """The node of a schema at a path of fields; None if there is none."""
    node: Mapping[str, Any] | None = schema
    for name in path.split("."):
        node = node.get("properties", {}).get(name) if node is not None and node["type"] == "object" else None
    return node


def sent_value(contract: Contract, path: str, content: Mapping[str, Any]) -> Any:
    """The value of a contract's field in a decoded record of plain JSON; None where it is missing."""
    value: Any = content
    for name in sent_path(contract.schema, path):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def plain_key(records: PlainJson, contract: Contract, content: Mapping[str, Any]) -> str | None:
    """The key for a record that comes without one: its subject, else its id, so that what belongs together is in one
    partition, in order. None if it has neither."""
    parts = (records.subject,) if is_field(records.subject) else records.id_parts
    values = [sent_value(contract, str(part), content) if is_field(part) else None for part in parts]
    if not values or not all(isinstance(value, str | int) and not isinstance(value, bool) for value in values):
        return None
    return str(values[0]) if len(values) == 1 else json.dumps(values, separators=(",", ":"))


def python_format(pattern: str) -> str:
    """The format of a ``TimeField`` for ``datetime.strptime``."""
    parts = _PART.findall(pattern)
    return "".join(_PATTERNS.get(part, part.strip("'").replace("%", "%%")) for part in parts)


Records = CloudEvents | PlainJson
"""How the records of a topic are read."""
