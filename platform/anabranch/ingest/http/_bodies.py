"""Makes records of a request's body: CloudEvents in structured, binary and batch mode, and plain JSON.

The bytes of an event's data are kept as they were sent: numbers are not written anew. What the server adds to an
envelope stands in front: ``receivedtime`` (when it got an event that has ``senttime``), and ``dataschema`` if the
client names none: the newest contract of the type.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final
from urllib.parse import unquote

from anabranch.contracts import CloudEvents, Header, PlainJson, Record, Topic
from anabranch.contracts.model.records import Headers, holds_json, plain_key
from anabranch.contracts.sending import rfc3339
from anabranch.core.text.strict_json import SPACE, strict_decoder, with_fields

STRUCTURED: Final = "application/cloudevents+json"
BATCH: Final = "application/cloudevents-batch+json"
JSON: Final = "application/json"
LINES: Final = "application/x-ndjson"
IDEMPOTENCY: Final = ("idempotency-key", "x-github-delivery")
"""Headers whose value is the event's id, or the record's key, where a client gives none."""
KEY: Final = "record-key"
_DECODER: Final = strict_decoder()
_CE: Final = "ce-"
_MOST_KEY: Final = 1_000
_SPACES: Final = re.compile(f"[{SPACE}]*")
_LINE: Final = re.compile(f"[^{SPACE}][^\n]*")
"""A line that isn't empty, from its first character."""
MOST_RECORDS: Final = 50_000
"""Of one request: a body of more is refused before its records are made."""


class Unreadable(Exception):
    """A request that can't be read: HTTP ``status``, and what is wrong with it."""

    def __init__(self, status: int, what: str, next_step: str) -> None:
        self.status, self.what, self.next_step = status, what, next_step
        super().__init__(what)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A record as it will be in the log, and the decoded object, for checks."""

    key: bytes | None
    value: bytes
    content: Mapping[str, Any]
    headers: Headers = None


def prepare(
    topic: Topic, headers: Mapping[str, str], body: bytes, now: datetime | None = None, *, most: int = MOST_RECORDS
) -> list[Prepared]:
    """Return the records of a request, at least one, at most ``most``; ``headers`` by their names in lower case.
    Raises Unreadable."""
    records = _prepared(topic, headers, body, now or datetime.now(UTC), most)
    if not records:
        raise Unreadable(400, "there is no record in the body", "send at least one")
    return records


def _prepared(topic: Topic, headers: Mapping[str, str], body: bytes, now: datetime, most: int) -> list[Prepared]:
    media = headers.get("content-type", "").partition(";")[0].strip().lower()
    text = _decoded(body)
    repeated = next((_header(name, headers[name]) for name in IDEMPOTENCY if headers.get(name)), "")
    if not holds_json(topic.records):
        what = f"records of topic {topic.name} are {type(topic.records).__name__}, which HTTP can't take"
        raise Unreadable(415, what, "send them to the log with their producer's serializer")
    if isinstance(topic.records, PlainJson):
        return list(_plain(topic.records, topic, media, headers, text, repeated, most))
    return list(_events(topic, media, headers, text, repeated, now, most))


def _events(
    topic: Topic, media: str, headers: Mapping[str, str], text: str, repeated: str, now: datetime, most: int
) -> Iterator[Prepared]:
    if media == STRUCTURED:
        found = [_one(text)]
    elif media == BATCH:
        found = _array(text, most)
    elif media == LINES:
        found = _lines(text, most)
    elif f"{_CE}type" in headers or f"{_CE}id" in headers:
        yield _binary(topic, media, headers, text, repeated, now)
        return
    else:
        raise Unreadable(
            415,
            f"topic {topic.name} takes CloudEvents, not {media or 'a body without a content type'}",
            f"send {STRUCTURED}, {BATCH} or {LINES}, or the attributes as headers (ce-id, ce-type, ...)",
        )
    if repeated and len(found) > 1:
        raise _one_key()
    for raw, event in found:
        more = {"id": repeated} if repeated and "id" not in event else {}
        more |= _added(topic, event, now)
        yield Prepared(_text(event.get("subject")), with_fields(raw, more).encode(), {**event, **more})


def _binary(topic: Topic, media: str, headers: Mapping[str, str], text: str, repeated: str, now: datetime) -> Prepared:
    if media != JSON and not media.endswith("+json"):
        raise Unreadable(415, f"the data of an event is JSON here, not {media or 'unnamed'}", f"send {JSON}")
    _, data = _one(text)
    event: dict[str, Any] = {
        name.removeprefix(_CE): _header(name, value, quoted=True)
        for name, value in headers.items()
        if name.startswith(_CE)
    }
    if "data" in event:
        raise Unreadable(400, "an event has no attribute named data", "send the data as the body, without ce-data")
    if repeated:
        event.setdefault("id", repeated)
    event |= {"datacontenttype": JSON, **_added(topic, event, now)}
    value = with_fields('{"data":' + text.strip(SPACE) + "}", event).encode()
    return Prepared(_text(event.get("subject")), value, {**event, "data": data})


def _added(topic: Topic, event: Mapping[str, Any], now: datetime) -> dict[str, str]:
    added = {}
    if event.get("senttime") and "receivedtime" not in event:
        added["receivedtime"] = rfc3339(now)
    kind = str(event.get("type"))
    kind = topic.records.types.get(kind, kind) if isinstance(topic.records, CloudEvents) else kind
    if "dataschema" not in event and kind in topic.event_types:
        added["dataschema"] = topic.newest(kind).uri
    return added


def _plain(
    records: PlainJson,
    topic: Topic,
    media: str,
    headers: Mapping[str, str],
    text: str,
    repeated: str,
    most: int,
) -> Iterator[Prepared]:
    if media == LINES:
        found = _lines(text, most)
    elif media == JSON or media.endswith("+json"):
        found = _array(text, most) if text.lstrip(SPACE).startswith("[") else [_one(text)]
    else:
        raise Unreadable(
            415, f"topic {topic.name} takes plain JSON, not {media or 'a body without a content type'}",
            f"send {JSON}: an object, or an array of objects; or {LINES}",
        )  # fmt: skip
    key = _header(KEY, headers.get(KEY, ""))
    if repeated:
        if records.id is Record.OFFSET:
            raise Unreadable(
                400, f"the records of {topic.name} have no id, so a repeated request can't be told from another one",
                "leave the idempotency key out, or map an id",
            )  # fmt: skip
        key = key or (repeated if records.id is Record.KEY else "")
    # Headers that the mapping names are the record's, too.
    given = {name: headers.get(name.lower(), "") for name in records.header_names}
    mapped = [(name, _header(name, value).encode()) for name, value in given.items() if value]
    if repeated and isinstance(records.id, Header) and records.id.name not in dict(mapped):
        mapped.append((records.id.name, repeated.encode()))
    if (key or (mapped and records.shares_id)) and len(found) > 1:
        raise _one_key()
    for raw, content in found:
        own = key or plain_key(records, topic.contracts[0], content)
        yield Prepared(_text(own), raw.encode(), content, mapped)


def _header(name: str, value: str, *, quoted: bool = False) -> str:
    """The text of a header, whose bytes Starlette takes for Latin-1; ``quoted``: it may be percent-encoded."""
    try:
        text = value if value.isascii() else value.encode("latin-1").decode()
        return unquote(text, errors="strict") if quoted else text
    except UnicodeError:
        raise Unreadable(400, f"the header {name} is not UTF-8", "send its text in UTF-8") from None


def _decoded(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise Unreadable(400, f"byte {error.start} of the body is not UTF-8", "send JSON in UTF-8") from None


def _one(text: str, number: int = 0) -> tuple[str, dict[str, Any]]:
    raw, content, end = _next(text, 0, number)
    if end < len(text):
        what = f"record {number}: there is more behind the object, at character {end}"
        raise Unreadable(400, what, "send one JSON object")
    return raw, content


def _array(text: str, most: int) -> list[tuple[str, dict[str, Any]]]:
    at = _skip(text, 0)
    if text[at : at + 1] != "[":
        raise Unreadable(400, "the body is no JSON array", "send an array of objects")
    found, at = list[tuple[str, dict[str, Any]]](), _skip(text, at + 1)
    while text[at : at + 1] != "]" or found:
        if len(found) == most:
            raise _too_many(most)
        raw, content, at = _next(text, at, len(found))
        found.append((raw, content))
        if text[at : at + 1] == "]":
            break
        if text[at : at + 1] != ",":
            raise Unreadable(400, f"a comma or ] is missing at character {at}", "send an array of objects")
        at += 1
    if _skip(text, at + 1) < len(text):
        raise Unreadable(400, f"there is more behind the array, at character {at + 1}", "send one JSON array")
    return found


def _lines(text: str, most: int) -> list[tuple[str, dict[str, Any]]]:
    lines = [line.group() for line in islice(_LINE.finditer(text), most + 1)]
    if len(lines) > most:
        raise _too_many(most)
    return [_one(line, number) for number, line in enumerate(lines)]


def _next(text: str, at: int, number: int = 0) -> tuple[str, dict[str, Any], int]:
    """The object that begins at a place: its own characters, its content, and where what follows begins."""
    begin = _skip(text, at)
    try:
        content, end = _DECODER.raw_decode(text, begin)
    except (ValueError, RecursionError) as error:
        raise Unreadable(400, f"record {number}: not JSON: {error}", "correct it and send all again") from None
    if not isinstance(content, dict):
        raise Unreadable(400, f"record {number}: a JSON object is needed, not {type(content).__name__}", "send objects")
    return text[begin:end], content, _skip(text, end)


def _skip(text: str, at: int) -> int:
    if at < len(text) and text[at] in SPACE and (spaces := _SPACES.match(text, at)) is not None:
        return spaces.end()
    return at


def _text(value: object) -> bytes | None:
    """A record's key; too long ones, which only bad records have, are none."""
    return value.encode("utf-8", "replace") if isinstance(value, str) and 0 < len(value) <= _MOST_KEY else None


def _too_many(most: int) -> Unreadable:
    what = f"{most + 1:,} records are more than the {most:,} of one request"
    return Unreadable(413, what, "send fewer records in one request")


def _one_key() -> Unreadable:
    return Unreadable(400, "one key can't stand for several records", "give each record its id")
