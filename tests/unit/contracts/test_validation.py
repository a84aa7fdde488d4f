"""What the producer refuses, and which field it names."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from anabranch.contracts import Contract, Event
from anabranch.contracts.sending import EventValidator
from anabranch.core.errors import BadInput

pytestmark = pytest.mark.unit

CONTRACT = Contract(
    "parcel.seen",
    1,
    {
        "type": "object",
        "required": ["code", "count", "seen_at"],
        "properties": {
            "code": {"type": "string", "pattern": "^[A-Z]{3}$"},
            "count": {"type": "integer", "minimum": 0},
            "seen_at": {"type": "string", "format": "date-time"},
            "day": {"type": "string", "format": "date"},
            "kind": {"type": "string", "enum": ["box", "bag"]},
            "big": {"type": "integer"},
            "weight": {"type": "number"},
            "parts": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer"}}}},
            "sizes": {"type": "array", "items": {"type": "number"}},
            "rates": {"type": "object", "additionalProperties": {"type": "number"}},
        },
    },
)
VALIDATOR = EventValidator([CONTRACT])
GOOD = {"code": "ABC", "count": 1, "seen_at": "2013-01-01T00:00:00Z"}
BODY = json.loads(Event("1", "/s", "parcel.seen", "k", datetime(2013, 1, 1, tzinfo=UTC), GOOD, CONTRACT.uri).to_json())


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"day": "2012-02-29", "kind": "box", "big": 2**63 - 1, "weight": 1, "parts": [{"n": 1}, {}]},
        {"day": None, "kind": None, "big": None, "weight": None, "parts": None},
        {"unknown": {"to": ["the", "contract"]}},
        {"seen_at": "2013-01-01T00:00:00.123456+05:30"},
        {"seen_at": "0001-01-01T00:00:00Z"},
        {"seen_at": "0001-01-01T00:00:00-05:00"},
        {"seen_at": "9999-12-31T23:59:59+05:00"},
    ],
)
def test_good_data_passes(more: dict[str, Any]) -> None:
    VALIDATOR.check({**BODY, "data": {**GOOD, **more}})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("code", "AB"),
        ("code", "ABC\n"),
        ("code", None),
        ("count", -1),
        ("count", 1.0),
        ("count", True),
        ("count", "1"),
        ("big", 2**63),
        ("weight", "heavy"),
        ("day", "2013-02-29"),
        ("day", "0000-01-01"),
        ("kind", "bomb"),
        ("seen_at", "2013-01-01 00:00:00Z"),
        ("seen_at", "2013-01-01t00:00:00z"),
        ("seen_at", "2013-01-01T00:00:00"),
        ("seen_at", "2016-12-31T23:59:60Z"),
        ("seen_at", "0000-01-01T00:00:00Z"),
        ("seen_at", "0001-01-01T00:00:00+23:00"),
        ("seen_at", "9999-12-31T23:59:59-23:00"),
    ],
)
def test_a_wrong_field_is_named(field: str, value: object) -> None:
    with pytest.raises(BadInput) as caught:
        VALIDATOR.check({**BODY, "data": {**GOOD, field: value}})
    assert (caught.value.code, caught.value.fields["field"]) == ("EVENT_REFUSED", f"data.{field}")
    assert caught.value.fields["event_id"] == "1"


@pytest.mark.parametrize(
    "value", [float("inf"), float("-inf"), float("nan"), 10**400, -(10**400)], ids=["inf", "-inf", "nan", "10", "-10"]
)
@pytest.mark.parametrize(("field", "of"), [("weight", "X"), ("sizes.1", [1, "X"]), ("rates.b", {"a": 1, "b": "X"})])
def test_a_number_that_no_double_holds_is_named(field: str, of: Any, value: float) -> None:
    name = field.split(".")[0]
    given = json.loads(json.dumps(of), object_hook=lambda each: {k: value if v == "X" else v for k, v in each.items()})
    given = [value if each == "X" else each for each in given] if isinstance(given, list) else given
    with pytest.raises(BadInput) as error:
        VALIDATOR.check({**BODY, "data": {**GOOD, name: value if given == "X" else given}})
    assert error.value.fields["field"] == f"data.{field}"


@pytest.mark.parametrize("text", ["1e400", "-1e999", "1" + 400 * "0"], ids=["1e400", "-1e999", "digits"])
def test_a_text_that_no_double_holds_is_refused(text: str) -> None:
    body = json.dumps({**BODY, "data": {**GOOD, "weight": "X"}}).replace('"X"', text).encode()
    with pytest.raises(BadInput) as error:
        VALIDATOR.check_bytes(body)
    assert error.value.fields["field"] == "data.weight"
    VALIDATOR.check_bytes(body.replace(text.encode(), b"1.7976931348623157e308"))


def test_a_wrong_field_inside_an_array_is_named_with_its_place() -> None:
    with pytest.raises(BadInput) as caught:
        VALIDATOR.check({**BODY, "data": {**GOOD, "parts": [{"n": 1}, {"n": "x"}]}})
    assert caught.value.fields["field"] == "data.parts.1.n"


@pytest.mark.parametrize("field", ["specversion", "id", "source", "type", "subject", "time", "data"])
def test_the_envelope_is_complete(field: str) -> None:
    with pytest.raises(BadInput) as caught:
        VALIDATOR.check({name: value for name, value in BODY.items() if name != field})
    assert caught.value.fields["field"] == field


def test_a_missing_field_of_the_data_is_named() -> None:
    with pytest.raises(BadInput) as caught:
        VALIDATOR.check({**BODY, "data": {"code": "ABC", "seen_at": GOOD["seen_at"]}})
    assert caught.value.fields["field"] == "data.count"


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"dataschema": "urn:anabranch:contract:parcel.seen:2"}, "dataschema"),
        ({"dataschema": ["a"]}, "dataschema"),
        ({"type": "parcel.lost"}, "type"),
        ({"id": ""}, "id"),
        ({"time": "yesterday"}, "time"),
        ({"senttime": 5}, "senttime"),
        ({"specversion": "0.3"}, "specversion"),
        ({"data": "{}"}, "data"),
    ],
)
def test_a_wrong_envelope_is_named(more: dict[str, Any], field: str) -> None:
    with pytest.raises(BadInput) as caught:
        VALIDATOR.check({**BODY, **more})
    assert caught.value.fields["field"] == field


@pytest.mark.parametrize(
    "value",
    [b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 100_000, b'{"a":NaN}', b'"\xc3\x28"'],
    ids=["empty", "cut", "array", "null", "utf16", "deep", "nan", "utf8"],
)
def test_bytes_that_are_no_event_are_refused(value: bytes) -> None:
    with pytest.raises(BadInput) as caught:
        VALIDATOR.check_bytes(value)
    assert caught.value.code == "EVENT_REFUSED"


def test_hostile_text_where_text_is_allowed_is_only_text() -> None:
    for text in ("'); DROP TABLE x; --", "${jndi:ldap://x}", "../../etc/passwd", "\u202e\x00\U0001f4a9"):
        VALIDATOR.check_bytes(json.dumps({**BODY, "id": text, "subject": text}).encode())
