"""Finds the reason why a record is in quarantine, for the few records that ``_validity.is_valid`` rejects.

Spark alone decides whether a record is valid; this module only finds the words, in plain Python.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc

from anabranch.contracts import CloudEvents, Header, Record, TimeField, Topic
from anabranch.contracts.fields.decimals import EXACT_DECODER
from anabranch.contracts.formats import Undecodable
from anabranch.contracts.model.contract import sent_path
from anabranch.contracts.model.event_headers import attributes, other_content
from anabranch.contracts.model.records import Headers, Mapped, Part, format_regex, last_header, python_format
from anabranch.core.text import strict_json
from anabranch.ingest.landing.decoding._append_times import FIRST, LAST
from anabranch.ingest.landing.decoding._contract_reasons import contract_problems, moment
from anabranch.ingest.landing.decoding._documents import document
from anabranch.ingest.landing.decoding._epochs import moment_since_1970
from anabranch.ingest.landing.table.schema import QUARANTINED

UNREADABLE: Final = "unreadable: the engine's parser refuses it"
"""The reason of a record in which nothing wrong is found."""
_DEEPEST: Final = 20
"""So many levels are looked through for names that are there twice."""


def with_reasons(rows: pa.Table, topic: Topic) -> pa.Table:
    """``rows`` (with decision, reason, and the columns of the record), with a reason for each quarantined one."""
    refused = pc.equal(rows["decision"], QUARANTINED)
    if not pc.any(refused).as_py():
        return rows
    reasons: list[str | None] = [None] * rows.num_rows
    for index in pc.indices_nonzero(refused).to_pylist():
        value, key, appended, said = (rows[name][index].as_py() for name in ("value", "key", "append_time", "headers"))
        headers = None if said is None else [(header["key"], header["value"]) for header in said]
        loaded = rows["partition"][index].as_py() < 0
        reasons[index] = reason(topic, value, appended, key, headers, loaded=loaded)
    column = rows.schema.get_field_index("reason")
    return rows.set_column(column, "reason", pa.array(reasons, pa.string()))


def reason(
    topic: Topic,
    value: bytes | None,
    append_time: datetime,
    key: bytes | None = None,
    headers: Headers = None,
    *,
    loaded: bool = False,
) -> str:
    """The first problem of a record that was appended at ``append_time`` (with a time zone); ``loaded``: a row of a
    file."""
    if value is None:
        return "empty: the record has no value" + ("" if key is None else ", though its headers are those of an event")
    if not FIRST < append_time < LAST:
        return "append_time: the time of the record in the log is outside of the years 1 to 9999"
    try:
        text = document(topic.records, value, loaded=loaded).decode()
    except Undecodable as why:
        return str(why)
    except UnicodeDecodeError:
        return "not_utf8: the value is no UTF-8 text"
    try:
        event = strict_json.loads(text, EXACT_DECODER)
    except ValueError:
        return "not_json: the value is no JSON object"
    if not isinstance(event, dict):
        return "not_json: the value is no JSON object"
    mapping, binary = topic.records, attributes(headers)
    of_data = isinstance(mapping, Mapped) or binary is not None
    problems = (
        _wrong_by_mapping(topic, mapping, event, append_time, key, headers)
        if isinstance(mapping, Mapped)
        else _wrong(topic, mapping, event, append_time, loaded=loaded)
        if binary is None
        else _wrong_in_headers(topic, mapping, {**binary, "data": event}, append_time, other_content(headers))
    )
    found = next(problems, None) or _unreadable(event, "data." if of_data else "")
    # JSON can escape a lone surrogate, but no text column can hold it: without this, landing would stop here for ever.
    return found.encode("utf-8", "backslashreplace").decode()


def _wrong(
    topic: Topic, records: CloudEvents, event: Mapping[str, Any], append_time: datetime, *, loaded: bool = False
) -> Iterator[str]:
    for name in ("id", "source", "type", "subject"):
        if event.get(name) is None and name == "subject":
            continue
        if event.get(name) in (None, ""):
            yield f"envelope: {name} is missing"
        elif not isinstance(event[name], str):
            yield f"envelope: {name} is no string"
    if not str(event.get("specversion", "")).startswith("1."):
        yield "envelope: specversion is not 1.0"
    untimed = records.time is not None and event.get("time") is None and not loaded
    if moment(event.get("time")) is None and not untimed:
        yield "envelope: time is missing or unreadable"
    for name in ("senttime", "receivedtime"):
        if event.get(name) is not None and moment(event[name]) is None:
            yield f"envelope: {name} is unreadable"
    sent, schema = str(event.get("type")), event.get("dataschema")
    kind = records.types.get(sent, sent)
    if kind not in topic.event_types:
        yield f"unknown_type: {kind[:80]}"
        return
    newest = topic.newest(kind)
    named = next((c for c in topic.versions(kind) if records.names(schema, c, newest=c == newest)), None)
    if named is None:
        yield f"unknown_contract: {str(schema)[:120]}"
        return
    yield from _absurd_received(topic, event, append_time) if untimed else _absurd(topic, event, append_time)
    if event.get("data") is None and event.get("data_base64") is not None:
        yield "envelope: data_base64 isn't read: the data of an event is a JSON object, in data"
    yield from contract_problems(named, event.get("data"))


def _unreadable(event: Mapping[str, Any], path: str = "") -> str:
    """UNREADABLE, with the first name that an object has twice: only one of its values may be as declared."""
    twice = next(_repeated(event, path, _DEEPEST), None)
    return f"{UNREADABLE}; {twice[:120]} is there twice" if twice else UNREADABLE


def _repeated(value: Any, path: str, levels: int) -> Iterator[str]:
    yield from (f"{path}{name}" for name in getattr(value, "repeated", ()))
    below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, each in below if levels else ():
        yield from _repeated(each, f"{path}{name}.", levels - 1)


def _wrong_in_headers(
    topic: Topic, records: CloudEvents, event: Mapping[str, Any], append_time: datetime, other_content: str
) -> Iterator[str]:
    if other_content:
        yield f"not_json: content-type says that the data is {other_content[:80]}"
    for why in _wrong(topic, records, event, append_time):
        yield why.replace("envelope: ", "envelope: header ce_", 1)


def _wrong_by_mapping(
    topic: Topic,
    mapping: Mapped,
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
    none = (None,) if len(mapping.id_parts) > 1 else (None, "")  # of several parts one may be empty
    for where, value in (at(part) for part in mapping.id_parts if part is not Record.KEY):
        if value in none:
            yield f"mapping: id: {where} is missing"
    named_key = _text_of_key(key)
    if Record.KEY in mapping.id_parts and named_key in none:
        yield f"mapping: id: {'the key is no UTF-8 text' if key else 'the record has no key'}"
    if mapping.subject is Record.KEY and named_key == "":
        yield "mapping: subject: the key is empty"
    if mapping.subject is not None and mapping.subject is not Record.KEY:
        where, value = at(mapping.subject)
        if value == "":
            yield f"mapping: subject: {where} is empty"
    yield from contract_problems(topic.newest(kind), data)
    if (field := mapping.time_field) is not None:
        where, value = at(field.path)
        time = mapped_moment(field, value)
        if time is None:
            yield f"mapping: time: {where} is missing or can't be read{_as_declared(field)}"
        yield from _absurd_time(topic, time, append_time, append_time)
    else:
        yield from _absurd_time(topic, append_time, append_time, append_time)


def _as_declared(time: TimeField) -> str:
    return f" as {time.format}" if time.format else f" as {time.unit} since 1970" if time.unit else ""


def _text_of_key(key: bytes | None) -> str | None:
    """None if there is no key, or if it is no UTF-8 text."""
    try:
        return None if key is None else key.decode()
    except UnicodeDecodeError:
        return None


def value_at(data: Any, names: Sequence[str]) -> Any:
    """The value at a path of fields, by their names in the record; None if there is none."""
    for name in names:
        data = data.get(name) if isinstance(data, dict) else None
    return data


def mapped_moment(time: TimeField, value: Any) -> datetime | None:
    """The event time that a mapped field says; None if it can't be read."""
    try:
        if time.unit:
            return moment_since_1970(value, time.unit)
        if not time.format:
            return moment(value)
        if not re.fullmatch(format_regex(time.format), value, re.ASCII):
            return None
        found = datetime.strptime(value, python_format(time.format))  # noqa: DTZ007 - the zone comes next
        return (found if found.tzinfo else found.replace(tzinfo=ZoneInfo(time.zone))).astimezone(UTC)
    except (OverflowError, TypeError, ValueError, re.error):  # the last of a format with one part twice (SSSSSSSSS)
        return None


def _absurd(topic: Topic, event: Mapping[str, Any], append_time: datetime) -> Iterator[str]:
    time, sent, received = (moment(event.get(name)) for name in ("time", "senttime", "receivedtime"))
    arrived = received or append_time
    try:
        corrected = time + (arrived - sent) if time and sent else time
    except OverflowError:
        corrected = None
    yield from _absurd_time(topic, corrected, arrived, append_time)


def _absurd_received(topic: Topic, event: Mapping[str, Any], append_time: datetime) -> Iterator[str]:
    """The same for an event that happened when its record was made: it isn't ahead of its receipt."""
    received = moment(event.get("receivedtime")) or append_time
    yield from _absurd_time(topic, append_time, max(received, append_time), append_time)


def _absurd_time(topic: Topic, time: datetime | None, arrived: datetime, append_time: datetime) -> Iterator[str]:
    if time is None or time.year < topic.earliest_year:
        yield f"absurd_time: before {topic.earliest_year}; the topic's earliest_year says what is too early"
    elif time - arrived > topic.future_bound or arrived - append_time > topic.future_bound:
        yield f"absurd_time: over {topic.future_bound} ahead of its receipt"
