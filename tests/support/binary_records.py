"""Records of CloudEvents in binary mode, sound and spoiled, made without a line of the platform."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from random import Random

from support.spoiled_records import KINDS, Body, foreign, missing, written

Headers = Sequence[tuple[str, bytes | None]]
Made = tuple[Headers, bytes | None]
Sent = tuple[Headers | None, bytes | None]
JSON_TYPES = (b"application/json", b"application/vnd.x+json; charset=utf-8", b"Text/JSON", None)
OTHER_TYPES = (b"text/plain", b"application/avro", b"application/json2", b"", b"\xff")
WHOLE_TYPES = (b"application/cloudevents+json", b"application/CloudEvents+json; charset=UTF-8")


def in_headers(chance: Random, body: Body) -> Made:
    """The same event in binary mode; its headers in any order, with some that say nothing about it."""
    headers: list[tuple[str, bytes | None]] = [
        (f"ce_{name}", str(value).encode()) for name, value in body.items() if name != "data"
    ]
    if (said := chance.choice(JSON_TYPES)) is not None:
        headers.append(("content-type", said))
    headers += chance.sample([("trace", b"\xff\x00"), ("ce_traceparent", b"00-1"), ("id", None), ("ce_data", b"{}")], 2)
    chance.shuffle(headers)
    return headers, written(body["data"])


def spoiled_in_headers(chance: Random, body: Body) -> Made:
    return chance.choice(SPOILS)(chance, body)


def _without_one(chance: Random, body: Body) -> Made:
    headers, value = in_headers(chance, body)
    gone = chance.choice(headers)
    return [each for each in headers if each is not gone], value


def _another_text(chance: Random, body: Body) -> Made:
    """Of two headers with one name the last one counts."""
    headers, value = in_headers(chance, body)
    name, _ = chance.choice(headers)
    text = chance.choice([b"", b"\xff", b"12", b"now", None, b"1.0", b"2999-01-01T00:00:00Z"])
    return [*headers, (name, text)] if chance.random() < 0.7 else [(name, text), *headers], value


def _another_content_type(chance: Random, body: Body) -> Made:
    headers, value = in_headers(chance, body)
    kept = [each for each in headers if each[0] != "content-type"]
    return [*kept, ("content-type", chance.choice([*OTHER_TYPES, *WHOLE_TYPES]))], value


def _a_whole_event(chance: Random, body: Body) -> Made:
    """As the value of a record with an event's headers, and of one that says so."""
    said = chance.choice([*WHOLE_TYPES, b"application/json"])
    return [("ce_id", b"of-headers"), ("content-type", said)], written(body)


def _another_body(chance: Random, body: Body) -> Made:
    return in_headers(chance, body)[0], chance.choice(KINDS)(chance, body)


def _another_data(chance: Random, body: Body) -> Made:
    headers, value = in_headers(chance, body)
    more = [b"", b"null", b"[]", b"{}", b"{", value[:-1] if value else b"", (value or b"") + b',"id":"x"', None]
    more += [(value or b"") + b'},"event":{"data":' + (value or b""), (value or b"").replace(b'"', b"'")]
    return headers, chance.choice(more)


def _strange(chance: Random, body: Body) -> Made:
    """Another type, or a field or an attribute that is missing."""
    made = json.loads(chance.choice([foreign, missing])(chance, body) or b"{}")
    return in_headers(chance, made) if "data" in made else _without_one(chance, body)


SPOILS: tuple[Callable[[Random, Body], Made], ...] = (
    _without_one, _another_text, _another_content_type, _a_whole_event, _another_body, _another_data, _strange,
)  # fmt: skip
