"""How the records of a topic are read: as CloudEvents, or in a format without an envelope and with a mapping.

The mapping says where a record has what an envelope would say: id, event time, type, subject, source. A field is
named by its path (``customer.id``), and must be a field of every contract of the topic. Records in Avro, Protobuf, text
and bytes are read as the JSON documents that ``contracts.formats`` makes of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from anabranch.contracts.fields.registered_schema import Schemas
from anabranch.contracts.model.contract import URN, sent_path
from anabranch.core.errors import BadDefinition

if TYPE_CHECKING:
    from anabranch.contracts.model.contract import Contract

UNITS: Final[Mapping[str, int]] = {"s": 1_000_000, "ms": 1_000, "us": 1, "ns": 0}
"""Microseconds of a unit of time; nanoseconds are divided."""
EPOCH_SCALE: Final = 15
"""The most digits behind the point of a time since 1970 that are looked at."""
PATTERNS: Final = {
    "yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S", "SSSSSS": "%f", "SSS": "%f", "XXX": "%z",
}  # fmt: skip
_DIGITS: Final = {"yyyy": r"\d{4}", "SSSSSS": r"\d{1,6}", "SSS": r"\d{1,3}", "XXX": r"(?:Z|[+-]\d\d:\d\d)"}
PART = re.compile(r"yyyy|MM|dd|HH|mm|ss|SSSSSS|SSS|XXX|'[^']+'|[^A-Za-z'\[\]{}#]")
"""Of a format. To Java brackets are optional parts, and braces and ``#`` are reserved."""


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
    """A field with the event time: a number, a decimal or digits in a text, with their ``unit`` (s, ms, us, ns since
    1970), a text with its ``format`` (``yyyy-MM-dd HH:mm:ss``; parts: yyyy MM dd HH mm ss SSS SSSSSS XXX) and, if that
    has no offset, its time ``zone``, or, without both, a ``date-time`` of the contract."""

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
    headers ``ce_...``: the envelope is in the headers, and the record is the data, as JSON.

    For events as other producers make them. ``types``: the event types by the ``type`` that they send, where they
    differ. ``schemas``: the version of the contract by the ``dataschema`` that they send, or "any": each means the
    newest. One of ours (``urn:anabranch:contract:...``) always means the version that it names, none the newest.
    ``time``: ``Record.APPEND_TIME`` for what has no ``time``, which the standard doesn't require; None: that is
    quarantined.
    """

    types: Mapping[str, str] = field(default_factory=dict, hash=False)
    schemas: Mapping[str, int] | Literal["any"] = field(default_factory=dict, hash=False)
    time: Record | None = None

    def sent_types(self, event_type: str) -> list[str]:
        """What producers send for an event type."""
        own = [] if event_type in self.types else [event_type]
        return own + [sent for sent, name in self.types.items() if name == event_type]

    def sent_schemas(self, version: int) -> list[str]:
        """What producers send for a version, besides its own URI."""
        return [] if isinstance(self.schemas, str) else [uri for uri, n in self.schemas.items() if n == version]

    def names(self, dataschema: object, contract: Contract, *, newest: bool) -> bool:
        """Whether a ``dataschema`` (None: there is none) names a contract, the ``newest`` of its type or an older
        one."""
        others = isinstance(dataschema, str) and not dataschema.startswith(URN)
        if dataschema is None or (self.schemas == "any" and others):
            return newest
        return dataschema in (contract.uri, *self.sent_schemas(contract.version))


@dataclass(frozen=True, slots=True)
class Mapped:
    """A format without an envelope, and the mapping of its fields.

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

    @property
    def from_registry(self) -> bool:
        """Whether records name the id of their schema in a schema registry."""
        return False


@dataclass(frozen=True, slots=True)
class PlainJson(Mapped):
    """Each record is a JSON object whose fields are those of the contract."""


@dataclass(frozen=True, slots=True)
class Raw(Mapped):
    """Each record is a text in UTF-8, or any bytes (``form="base64"``): the contract has one field, called like the
    form, a string that holds them."""

    form: Literal["text", "base64"] = "text"


@dataclass(frozen=True, slots=True)
class Avro(Mapped):
    """Each record is a value of Avro's binary encoding.

    ``schema``: that of all records, as a file (a Path) or Avro's JSON. Without it each record names its own, by its id
    in a schema registry (Confluent's wire format). ``schemas``: those that are known; landing fills them in.
    """

    schema: str | Path = ""
    schemas: Schemas | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if isinstance(self.schema, Path):
            object.__setattr__(self, "schema", _text_of(self.schema))

    @property
    def from_registry(self) -> bool:
        return not self.schema


@dataclass(frozen=True, slots=True)
class Protobuf(Mapped):
    """Each record is a message of Protobuf that names its schema by its id in a schema registry (Confluent's wire
    format). ``schemas``: those that are known; landing fills them in."""

    schemas: Schemas | None = field(default=None, compare=False, repr=False)

    @property
    def from_registry(self) -> bool:
        return True


def _text_of(file: Path) -> str:
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else f"byte {error.start} is no UTF-8"
        raise BadDefinition(
            "MAPPING",
            f"the schema {file} can't be read: {why}",
            next_step="name its file: schema=Path(__file__).with_name('payment.avsc')",
            part="schema",
        ) from None


def is_field(part: Part | None) -> bool:
    """Whether it is the path of a field."""
    return isinstance(part, str) and not isinstance(part, Record)


def holds_json(records: Records) -> bool:
    """Whether the values of records are JSON as they are."""
    return isinstance(records, CloudEvents | PlainJson)


def last_header(headers: Headers, name: str) -> str | None:
    """The text of the last header of this name; None if there is none, or if it is no UTF-8 text."""
    value = next((value for key, value in reversed(headers or ()) if key == name), None)
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


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


def plain_key(records: Mapped, contract: Contract, content: Mapping[str, Any]) -> str | None:
    """The key for a record that comes without one: its subject, else its id, so that what belongs together is in one
    partition, in order. None if it has neither, or where the key is the id: records of one subject are no copies."""
    if Record.KEY in records.id_parts:
        return None
    parts = (records.subject,) if is_field(records.subject) else records.id_parts
    values = [sent_value(contract, str(part), content) if is_field(part) else None for part in parts]
    if not values or not all(isinstance(value, str | int) and not isinstance(value, bool) for value in values):
        return None
    return str(values[0]) if len(values) == 1 else json.dumps(values, separators=(",", ":"))


def format_regex(pattern: str) -> str:
    """A regular expression for what a ``TimeField``'s format reads: ``strptime`` takes numbers that are too short."""
    parts = PART.findall(pattern)
    return "".join(_DIGITS.get(p, r"\d\d") if p in PATTERNS else re.escape(p.strip("'")) for p in parts)


def python_format(pattern: str) -> str:
    """The format of a ``TimeField`` for ``datetime.strptime``."""
    parts = PART.findall(pattern)
    return "".join(PATTERNS.get(part, part.strip("'").replace("%", "%%")) for part in parts)


Records = CloudEvents | Mapped
"""How the records of a topic are read."""
