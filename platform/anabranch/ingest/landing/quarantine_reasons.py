"""Finds the reason why a record is in quarantine, for the few records that ``validity.is_valid`` rejects.

Spark alone decides whether a record is valid; this module only finds the words, in plain Python.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc

from anabranch.contracts import Contract, PlainJson, Topic
from anabranch.contracts.contract import sent_name, sent_path
from anabranch.contracts.decimals import EXACT_DECODER, exact_value, is_decimal, limit, problem, type_name
from anabranch.contracts.records import UNITS, Header, Headers, Part, Record, TimeField, last_header, python_format
from anabranch.core import strict_json
from anabranch.ingest.landing.binary_mode import attributes, other_content
from anabranch.ingest.landing.schema import QUARANTINED

_DATE_TIME = re.compile(r"(?!0000)\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,9})?(Z|[+-]\d{2}:\d{2})")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_START = datetime(1970, 1, 1, tzinfo=UTC)


def with_reasons(rows: pa.Table, topic: Topic) -> pa.Table:
    """``rows`` (with decision, reason, and the columns of the record), with a reason for each quarantined one."""
    refused = pc.equal(rows["decision"], QUARANTINED)
    if not pc.any(refused).as_py():
        return rows
    reasons: list[str | None] = [None] * rows.num_rows
    for index in pc.indices_nonzero(refused).to_pylist():
        value, key, appended, said = (rows[name][index].as_py() for name in ("value", "key", "append_time", "headers"))
        headers = None if said is None else [(header["key"], header["value"]) for header in said]
        reasons[index] = reason(topic, value, appended, key, headers)
    column = rows.schema.get_field_index("reason")
    return rows.set_column(column, "reason", pa.array(reasons, pa.string()))


def reason(
    topic: Topic, value: bytes | None, append_time: datetime, key: bytes | None = None, headers: Headers = None
) -> str:
    """The first problem of a record that was appended at ``append_time`` (with a time zone)."""
    if value is None:
        return "empty: the record has no value"
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return "not_utf8: the value is no UTF-8 text"
    try:
        event = strict_json.loads(text, EXACT_DECODER)
    except ValueError:
        return "not_json: the value is no JSON object"
    if not isinstance(event, dict):
        return "not_json: the value is no JSON object"
    mapping = topic.records
    problems = (
        _wrong_by_mapping(topic, mapping, event, append_time, key, headers)
        if isinstance(mapping, PlainJson)
        else _wrong(topic, event, append_time)
        if (binary := attributes(headers)) is None
        else _wrong_in_headers(topic, {**binary, "data": event}, append_time, other_content(headers))
    )
    found = next(problems, None) or "unreadable: the engine's parser refuses it"
    # JSON can escape a lone surrogate, but no text column can hold it: without this, landing would stop here for ever.
    return found.encode("utf-8", "backslashreplace").decode()


def _wrong(topic: Topic, event: Mapping[str, Any], append_time: datetime) -> Iterator[str]:
    for name in ("id", "source", "type", "subject"):
        if event.get(name) is None and name == "subject":
            continue
        if event.get(name) in (None, ""):
            yield f"envelope: {name} is missing"
        elif not isinstance(event[name], str):
            yield f"envelope: {name} is no string"
    if not str(event.get("specversion", "")).startswith("1."):
        yield "envelope: specversion is not 1.0"
    if _moment(event.get("time")) is None:
        yield "envelope: time is missing or unreadable"
    for name in ("senttime", "receivedtime"):
        if event.get(name) is not None and _moment(event[name]) is None:
            yield f"envelope: {name} is unreadable"
    kind, schema = str(event.get("type")), event.get("dataschema")
    if kind not in topic.event_types:
        yield f"unknown_type: {kind[:80]}"
        return
    followed = [c for c in topic.contracts if c.name == kind and (schema == c.uri or schema is None)]
    if not followed:
        yield f"unknown_contract: {str(schema)[:120]}"
        return
    yield from _absurd(topic, event, append_time)
    yield from _contract(topic.newest(kind) if schema is None else followed[0], event.get("data"))


def _wrong_in_headers(
    topic: Topic, event: Mapping[str, Any], append_time: datetime, other_content: str
) -> Iterator[str]:
    if other_content:
        yield f"not_json: content-type says that the data is {other_content[:80]}"
    for why in _wrong(topic, event, append_time):
        yield why.replace("envelope: ", "envelope: header ce_", 1)


def _wrong_by_mapping(
    topic: Topic,
    mapping: PlainJson,
    data: Mapping[str, Any],
    append_time: datetime,
    key: bytes | None,
    headers: Headers,
) -> Iterator[str]:
    kind, schema = topic.event_types[0], topic.contracts[0].schema  # a field has one name in all records of a topic

    def at(part: Part) -> tuple[str, Any]:
        if isinstance(part, Header):
            return f"header {part.name}", last_header(headers, part.name)
        names = sent_path(schema, part)
        return "data." + ".".join(names), value_at(data, names)

    if mapping.type is not None:
        where, named = at(mapping.type.path)
        if not isinstance(named, str) or not named:
            yield f"mapping: type: {where} is missing or no string"
            return
        kind = mapping.type.names.get(named, named)
    if kind not in topic.event_types:
        yield f"unknown_type: {kind[:80]}"
        return
    for where, value in (at(part) for part in mapping.id_parts if part is not Record.KEY):
        if value in (None, ""):
            yield f"mapping: id: {where} is missing"
    parts = [*(("id", part) for part in mapping.id_parts), ("subject", mapping.subject)]
    for part in (name for name, where in parts if where is Record.KEY):
        if not _text_of_key(key) and (part == "id" or key):
            yield f"mapping: {part}: the record has no key" if not key else f"mapping: {part}: the key is no UTF-8 text"
    if mapping.subject is not None and mapping.subject is not Record.KEY:
        where, value = at(mapping.subject)
        if value == "":
            yield f"mapping: subject: {where} is empty"
    yield from _contract(topic.newest(kind), data)
    if (field := mapping.time_field) is not None:
        where, value = at(field.path)
        time = mapped_moment(field, value)
        if time is None:
            yield f"mapping: time: {where} is missing or can't be read{_as_declared(field)}"
        yield from _absurd_time(topic, time, append_time, append_time)


def _as_declared(time: TimeField) -> str:
    return f" as {time.format}" if time.format else f" as {time.unit} since 1970" if time.unit else ""


def _text_of_key(key: bytes | None) -> str:
    try:
        return (key or b"").decode()
    except UnicodeDecodeError:
        return ""


def value_at(data: Any, names: Sequence[str]) -> Any:
    """The value at a path of fields, by their names in the record; None if there is none."""
    for name in names:
        data = data.get(name) if isinstance(data, dict) else None
    return data


def mapped_moment(time: TimeField, value: Any) -> datetime | None:
    """The event time that a mapped field says; None if it can't be read."""
    try:
        if time.unit:
            if not isinstance(value, int) or isinstance(value, bool):
                return None
            factor = UNITS[time.unit]
            return _START + timedelta(microseconds=value * factor if factor else value // 1_000)
        if not time.format:
            return _moment(value)
        found = datetime.strptime(value, python_format(time.format))  # noqa: DTZ007 - the zone comes next
        return (found if found.tzinfo else found.replace(tzinfo=ZoneInfo(time.zone))).astimezone(UTC)
    except (OverflowError, TypeError, ValueError):
        return None


def _absurd(topic: Topic, event: Mapping[str, Any], append_time: datetime) -> Iterator[str]:
    time, sent, received = (_moment(event.get(name)) for name in ("time", "senttime", "receivedtime"))
    arrived = received or append_time
    try:
        corrected = time + (arrived - sent) if time and sent else time
    except OverflowError:
        corrected = None
    yield from _absurd_time(topic, corrected, arrived, append_time)


def _absurd_time(topic: Topic, time: datetime | None, arrived: datetime, append_time: datetime) -> Iterator[str]:
    if time is None or time.year < topic.earliest_year:
        yield f"absurd_time: before {topic.earliest_year}; the topic's earliest_year says what is too early"
    elif time - arrived > topic.future_bound or arrived - append_time > topic.future_bound:
        yield f"absurd_time: over {topic.future_bound} ahead of its receipt"


def _contract(contract: Contract, data: Any) -> Iterator[str]:
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
        yield f"{path} is no {node.get('format', node['type'])}"
        return
    if node["type"] == "array":
        items = ((f"{path}[{n}]", item) for n, item in enumerate(value))
        wrong = (why for at, item in items for why in _field(item, node["items"], at, True))
        if why := next(wrong, ""):
            kind = type_name(node["items"]) if is_decimal(node["items"]) else node["items"]["type"]
            yield f"{path} holds what is no {kind} ({why})"
    if "enum" in node and value not in node["enum"]:
        yield f"{path} is none of {node['enum']}"
    if "minimum" in node and value < limit(node, "minimum"):
        yield f"{path} is below {node['minimum']}"
    if "maximum" in node and value > limit(node, "maximum"):
        yield f"{path} is above {node['maximum']}"
    if "pattern" in node and not re.search(re.sub(r"(?<!\\)\$$", r"\\Z", node["pattern"]), value):
        yield f"{path} doesn't match {node['pattern']}"
    if node["type"] == "object":
        needed = set(node.get("required", ()))
        for name, child in node.get("properties", {}).items():
            sent = sent_name(name, child)
            yield from _field(value.get(sent), child, f"{path}.{sent}", name in needed)


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
    match node.get("format"):
        case "date-time":
            return _moment(value) is not None
        case "date":
            return _DATE.fullmatch(str(value)) is not None and _day(str(value))
        case _:
            return True


def _day(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _moment(text: Any) -> datetime | None:
    if not isinstance(text, str) or not _DATE_TIME.fullmatch(text):
        return None
    body, fraction, offset = re.fullmatch(r"([^.Z+]{10}T[\d:]{8})(?:\.(\d+))?(.+)", text).groups()  # type: ignore[union-attr]
    try:
        moment = datetime.fromisoformat(f"{body}.{(fraction or '0')[:6]:0<6}{offset.replace('Z', '+00:00')}")
        return moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
