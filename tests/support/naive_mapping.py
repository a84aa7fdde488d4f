"""What landing has to decide about records without an envelope, by a mapping: written once more, as naively as it can
be, with not a line of the platform."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

from support import naive_formats
from support.naive_reader import Pairs, Record, decimal_of, is_a, moment_of, object_of, text_of

Node = Mapping[str, Any]
Part = tuple[str, str]
""""field" and its path, "header" and its name, or "key"."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LARGEST = 1.7976931348623157e308
"""The largest double."""
FACTORS = {"s": 1_000_000, "ms": 1_000, "us": 1}
LETTERS = {
    "yyyy": r"(?P<year>\d{4})", "MM": r"(?P<month>\d\d)", "dd": r"(?P<day>\d\d)", "HH": r"(?P<hour>\d\d)",
    "mm": r"(?P<minute>\d\d)", "ss": r"(?P<second>\d\d)", "SSSSSS": r"(?P<fraction>\d{1,6})",
    "SSS": r"(?P<fraction>\d{1,3})", "XXX": r"(?P<offset>Z|[+-]\d\d:\d\d)",
}  # fmt: skip


@dataclass(frozen=True)
class Mapped:
    """Contracts by event type, and where a record has what an envelope says. ``id``: nothing for its coordinates.
    ``time``: ("append",), ("date-time", PATH), ("unit", PATH, UNIT) or ("format", PATH, FORMAT, ZONE). ``avro``: the
    schema of records in Avro; else they are JSON."""

    contracts: Mapping[str, Node]
    id: Sequence[Part]
    time: Sequence[str]
    type: Part | None
    names: Mapping[str, str]
    subject: Part | None
    source: str
    avro: Node | None = None
    future_bound: timedelta = timedelta(hours=1)
    earliest_year: int = 2000


@dataclass(frozen=True)
class Found:
    decision: str
    id: str | None = None
    source: str | None = None
    type: str | None = None
    subject: str | None = None
    time: datetime | None = None
    data: Mapping[str, Any] | None = field(default=None, hash=False)


QUARANTINED, TOMBSTONE = Found("quarantined"), Found("tombstone")


class Broken(Exception):
    """The record isn't what its topic declares."""


def decide(record: Record, mapped: Mapped) -> Found:
    if record.value is None:
        return QUARANTINED if record.key is None else TOMBSTONE
    content = object_of(record.value) if mapped.avro is None else naive_formats.avro(record.value, mapped.avro)
    try:
        if content is None:
            raise Broken
        return _valid(record, content, mapped)
    except Broken:
        return QUARANTINED


def names_twice(content: Any) -> bool:
    """Whether JSON has a name twice in an object."""
    if isinstance(content, list):
        return any(names_twice(each) for each in content)
    return isinstance(content, Pairs) and (bool(content.earlier) or any(names_twice(each) for each in content.values()))


def _valid(record: Record, content: Mapping[str, Any], mapped: Mapped) -> Found:
    kind = next(iter(mapped.contracts)) if mapped.type is None else _text_of(mapped.type, record, content)
    kind = mapped.names.get(kind or "", kind)
    if kind is None or kind not in mapped.contracts:
        raise Broken
    data = _typed(content, mapped.contracts[kind])
    parts = [_text_of(part, record, content) for part in mapped.id]
    if None in parts or parts == [""]:
        raise Broken
    name = parts[0] if len(parts) == 1 else json.dumps(parts, separators=(",", ":"), ensure_ascii=False)
    subject = None if mapped.subject is None else _text_of(mapped.subject, record, content)
    if subject == "":
        raise Broken
    time = record.append_time if mapped.time == ("append",) else _time(data, *mapped.time)
    if time is None or time.year < mapped.earliest_year or time - record.append_time > mapped.future_bound:
        raise Broken
    coordinates = f"{record.partition}-{record.offset}"
    return Found("valid", name if parts else coordinates, mapped.source, kind, subject, time, data)


def _text_of(part: Part, record: Record, content: Mapping[str, Any]) -> str | None:
    where, name = part
    if where == "field":
        value = _at(content, name)
        return None if value is None else text_of(str(value))
    if where == "key":
        found = record.key
    else:
        found = next((value for key, value in reversed(record.headers or ()) if key == name), None)
    try:
        return None if found is None else found.decode()
    except UnicodeDecodeError:
        return None


def _at(content: Mapping[str, Any], path: str) -> Any:
    value: Any = content
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _time(data: Mapping[str, Any], kind: str, path: str, form: str = "", zone: str = "") -> datetime | None:
    value: Any = _at(data, path)
    try:
        if kind == "unit" and value is not None:
            micros = value // 1_000 if form == "ns" else value * FACTORS[form]
            return EPOCH + timedelta(microseconds=micros)
        if kind == "format" and value is not None:
            return _by_format(value, form, zone)
    except (ValueError, OverflowError):
        return None
    assert value is None or isinstance(value, datetime)
    return value


def _by_format(value: str, form: str, zone: str) -> datetime | None:
    pattern, at = "", 0
    while at < len(form):
        if form[at] == "'":
            text = form[at + 1 :].partition("'")[0]
            pattern, at = pattern + re.escape(text), at + len(text) + 2
            continue
        letters = next((letters for letters in LETTERS if form.startswith(letters, at)), form[at])
        pattern, at = pattern + LETTERS.get(letters, re.escape(letters)), at + len(letters)
    found = re.fullmatch(pattern, value, re.ASCII)
    if found is None:
        return None
    said = found.groupdict()
    year, month, day = (int(said[name]) for name in ("year", "month", "day"))
    hour, minute, second = (int(said.get(name) or 0) for name in ("hour", "minute", "second"))
    micros = int((said.get("fraction") or "").ljust(6, "0"))
    local = datetime(year, month, day, hour, minute, second, micros)  # noqa: DTZ001 - the zone comes next
    return local.replace(tzinfo=_zone(said.get("offset"), zone)).astimezone(UTC)


def _zone(offset: str | None, zone: str) -> timezone | ZoneInfo:
    if offset is None:
        return ZoneInfo(zone)
    if offset == "Z":
        return UTC
    ahead = timedelta(hours=int(offset[1:3]), minutes=int(offset[4:]))
    return timezone(-ahead if offset[0] == "-" else ahead)


def _typed(value: Any, node: Node) -> Any:
    """A value as landing holds it, of JSON as it was written or of Avro as it is typed. Raises Broken."""
    if value is None:
        return None
    if node["type"] == "object":
        return _fields(value, node)
    match node.get("format"):
        case "decimal":
            found: Any = decimal_of(value, node)
        case "date-time":
            found = value if isinstance(value, datetime) else moment_of(value)
        case "date":
            found = _day(value)
        case _:
            found = _plain(value, node)
    if found is None or ("enum" in node and found not in node["enum"]):
        raise Broken
    if "pattern" in node and not re.fullmatch(node["pattern"], found, re.ASCII | re.DOTALL):
        raise Broken
    if not node.get("minimum", found) <= found <= node.get("maximum", found):
        raise Broken
    return found


def _fields(value: Any, node: Node) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise Broken
    for name, other in value.earlier if isinstance(value, Pairs) else ():
        _told_twice(other, node["properties"].get(name))
    found = {name: _typed(value.get(name), child) for name, child in node["properties"].items()}
    if any(found[name] is None for name in node.get("required", ())):
        raise Broken
    return found


def _told_twice(value: Any, node: Node | None) -> None:
    """What is said twice, and once not in its type, is refused: nobody knows what was meant. A text takes any type."""
    if node is None or value is None or node["type"] == "string":
        return
    if node["type"] != "object":
        if not is_a(value, node["type"]):
            raise Broken
        return
    if not isinstance(value, Pairs):
        raise Broken
    for name, each in [*value.items(), *value.earlier]:
        _told_twice(each, node["properties"].get(name))


def _plain(value: Any, node: Node) -> Any:
    kind = node["type"]
    if kind == "string":
        return text_of(value) if isinstance(value, str) else None
    if not is_a(value, kind):
        return None
    if kind == "integer":
        return value
    return float(value) if -LARGEST <= value <= LARGEST else None


def _day(value: Any) -> date | None:
    try:
        found = date.fromisoformat(value) if isinstance(value, str) and len(value) == 10 else None
    except ValueError:
        return None
    return found if found is not None and found.isoformat() == value else None
