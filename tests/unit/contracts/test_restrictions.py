"""What a contract may say of values: formats, enums, limits and patterns, each where all engines read it alike."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from anabranch.contracts import Contract, Topic
from anabranch.contracts.fields.patterns import python_pattern
from anabranch.contracts.model.contract_registry import RECORD, ContractRecord, check_registered, record_path, register
from anabranch.contracts.sending import EventValidator
from anabranch.core.errors import BadDefinition, BadInput
from anabranch.core.settings import Settings, load_settings
from anabranch.ingest.landing.decoding._contract_reasons import contract_problems
from support.patterns import PORTABLE

pytestmark = pytest.mark.unit
TEXT = {"type": "string"}


def contract(**fields: Any) -> Contract:
    return Contract("parcel.seen", 1, {"type": "object", "properties": fields})


def refused(**fields: Any) -> str:
    with pytest.raises(BadDefinition) as error:
        contract(**fields)
    assert error.value.code == "CONTRACT_SCHEMA"
    assert error.value.next_step
    return error.value.what


@pytest.mark.parametrize(
    "pattern",
    [
        r"^\p{L}+$", "(?P<x>a", "(?P<x>a)", "(?<x>a)", "(?i)a", "(?(1)a)", "(?>a)", "(?#a)", "a++", "a{,2}", "a{2,1}",
        r"\bfoo", r"\Afoo", r"foo\Z", r"foo\z", r"\v", r"\h", r"\0", r"\10", r"\2", r"\cA", r"\R", r"\Qa\E", r"\<a",
        r"\ud83d\ude00", "[[:alpha:]]", "[a&&b]", "[a--b]", "[a~~b]", "[a||b]", "[]a]", "[^]a]", r"[\w-z]", "[z-a]",
        "[a", "(a", "a)", "]", "}", "a{", "*a", "a**", "(?=a)*", "\ud800", 5, None, ["a"],
    ],
)  # fmt: skip
def test_a_pattern_that_engines_read_differently_is_refused_when_it_is_declared(pattern: Any) -> None:
    said = refused(where={"type": "object", "properties": {"code": {"type": "string", "pattern": pattern}}})
    assert said.startswith(f"parcel.seen v1: data.where.code: pattern {pattern!r}: ")


@pytest.mark.parametrize("pattern", PORTABLE)
def test_a_portable_pattern_means_the_same_to_the_sender_and_to_the_reasons(pattern: str) -> None:
    declared = contract(code={"type": "string", "pattern": pattern})
    schema = Contract("parcel.seen", 1, {**declared.schema, "required": ["code"]})
    validator = EventValidator([schema])
    for text in PORTABLE[pattern]:
        event: dict[str, Any] = {"specversion": "1.0", "id": "1", "source": "/s", "type": "parcel.seen", "subject": "k"}
        event |= {"time": "2013-01-01T00:00:00Z", "dataschema": schema.uri, "data": {"code": text}}
        try:
            validator.check(event)
            sent = True
        except BadInput:
            sent = False
        assert sent is not bool(list(contract_problems(schema, {"code": text}))), ascii(text)
        assert sent is (python_pattern(pattern).search(text) is not None), ascii(text)


def test_a_pattern_that_python_cannot_read_stops_no_reason() -> None:
    landed = contract(code={"type": "string", "pattern": "^a$"}, n={"type": "integer"})
    object.__setattr__(landed, "schema", {**landed.schema, "properties": {
        "code": {"type": "string", "pattern": r"^\p{L}+$"}, "n": {"type": "integer"}}})  # fmt: skip
    assert list(contract_problems(landed, {"code": "é", "n": "1"})) == ["contract: data.n is no integer"]


@pytest.mark.parametrize(
    ("node", "says"),
    [
        ({"type": "string", "format": "UUID"}, "landing can't check format 'UUID' of a string"),
        ({"type": "integer", "format": "uuid"}, "landing can't check format 'uuid' of a integer"),
        ({"type": "number", "format": "time"}, "landing can't check format 'time' of a number"),
        ({"type": "string", "format": "email"}, "landing can't check format 'email' of a string"),
        ({"type": "string", "format": "duration"}, "landing can't check format 'duration' of a string"),
        ({"type": "string", "format": None}, "landing can't check format None of a string"),
        ({"type": "string", "format": ["date"]}, "landing can't check format ['date'] of a string"),
        ({"type": "integer", "format": "date-time"}, "landing can't check format 'date-time' of a integer"),
        ({"type": "boolean", "format": "date"}, "landing can't check format 'date' of a boolean"),
        ({"type": "object", "properties": {}, "format": "date"}, "landing can't check format 'date' of a object"),
        ({"type": "array", "items": TEXT, "format": "date"}, "landing can't check format 'date' of a array"),
        ({"type": "integer", "pattern": "1"}, "a pattern of a integer"),
        ({"type": "string", "minimum": 1}, "minimum of a string"),
        ({"type": "string", "format": "date", "maximum": "2020-01-01"}, "maximum of a string"),
        ({"type": "boolean", "maximum": 1}, "maximum of a boolean"),
        ({"type": "integer", "minimum": "1"}, "minimum '1' is no number"),
        ({"type": "number", "maximum": True}, "maximum True is no number"),
        ({"type": "number", "maximum": float("nan")}, "maximum nan is no number"),
        ({"type": "integer", "maximum": 10**400}, f"maximum {10**400} is no number"),
        ({"type": "string", "enum": "ab"}, "enum 'ab' is no list of values"),
        ({"type": "string", "enum": []}, "enum [] is no list of values"),
        ({"type": "string", "enum": ["a", {"b": 1}]}, "enum has {'b': 1}, which is no string"),
        ({"type": "string", "enum": ["a", 1]}, "enum has 1, which is no string"),
        ({"type": "integer", "enum": [1, 2**63]}, "enum has 9223372036854775808, which is no integer of 64 bits"),
        ({"type": "integer", "minimum": 2**63}, "no integer of 64 bits is within its limits"),
        ({"type": "integer", "maximum": -(2**63) - 1}, "no integer of 64 bits is within its limits"),
        ({"type": "string", "enum": ["a\ud800"]}, "enum has 'a\\ud800': no text can hold half of a surrogate pair"),
        ({"type": "integer", "enum": [1, True]}, "enum has True, which is no integer"),
        ({"type": "integer", "enum": [1, 2.0]}, "enum has 2.0, which is no integer"),
        ({"type": "number", "enum": [1, "2"]}, "enum has '2', which is no number"),
        ({"type": "object", "properties": {}, "enum": [{}]}, "enum of a object"),
    ],
)
def test_a_restriction_that_does_not_fit_its_type_is_refused(node: dict[str, Any], says: str) -> None:
    assert refused(e=node) == f"parcel.seen v1: data.e: {says}"


def test_formats_are_refused_inside_of_arrays_and_maps_too() -> None:
    email = {"type": "string", "format": "email"}
    assert "data.ids[]: " in refused(ids={"type": "array", "items": email})
    assert "data.ids.*: " in refused(ids={"type": "object", "additionalProperties": email})


def test_restrictions_that_fit_are_allowed() -> None:
    contract(
        kind={"type": "string", "enum": ["box", "bag", None]},
        n={"type": "integer", "enum": [1, 2], "minimum": 0, "maximum": 9.5},
        x={"type": "number", "enum": [1, 0.5]},
        ok={"type": "boolean", "enum": [True]},
        at={"type": "string", "format": "date-time", "pattern": "Z$"},
        on={"type": "string", "format": "date", "enum": ["2020-01-01"]},
    )


@pytest.mark.parametrize(
    "node",
    [
        {"type": "object"},
        {"type": "object", "properties": {}},
        {"type": "array", "items": {"type": "object"}},
        {"type": "object", "additionalProperties": {"type": "object", "properties": {}}},
        {"type": "object", "properties": {"deeper": {"type": ["object", "null"]}}},
    ],
)
def test_an_object_without_fields_is_refused(node: dict[str, Any]) -> None:
    """Parquet can't hold one, and landing of the topic would end at the first record."""
    assert "an object without fields, which no column can hold" in refused(extra=node)
    with pytest.raises(BadDefinition, match=r"parcel\.seen v1: data: an object without fields"):
        contract()


def test_a_contract_that_is_nested_too_deeply_is_refused() -> None:
    node: dict[str, Any] = TEXT
    for _ in range(2_000):
        node = {"type": "object", "properties": {"a": node}}
    assert refused(a=node) == "parcel.seen v1: data: nested too deeply"


@pytest.mark.parametrize(
    ("node", "says"),
    [
        ({"type": "string", "required": ["b"]}, "required of a string"),
        ({"type": "string", "properties": {"a": TEXT}}, "properties of a string"),
        ({"type": "object", "properties": {"a": TEXT}, "items": TEXT}, "items of a object"),
        ({"type": "array", "items": TEXT, "properties": {"a": TEXT}}, "properties of a array"),
    ],
)
def test_what_belongs_to_another_type_is_refused(node: dict[str, Any], says: str) -> None:
    assert refused(x=node) == f"parcel.seen v1: data.x: {says}"


def event(declared: Contract, **data: str) -> dict[str, Any]:
    head = {"specversion": "1.0", "id": "1", "source": "/s", "type": "parcel.seen", "subject": "k"}
    return {**head, "time": "2013-01-01T00:00:00Z", "dataschema": declared.uri, "data": data}


def test_a_time_with_a_pattern_is_still_a_time() -> None:
    declared = contract(at={"type": "string", "format": "date-time", "pattern": "Z$"})
    schema = EventValidator([declared])
    schema.check(event(declared, at="2013-01-01T00:00:00Z"))
    for wrong in ("0000-01-01T00:00:00Z", "2016-12-31T23:59:60Z", "2013-01-01T00:00:00+00:00"):
        with pytest.raises(BadInput):
            schema.check(event(declared, at=wrong))


@pytest.mark.parametrize("pattern", [r"^.{1,9999}$", r"^\S{1,9999}$", r"^(?=.{1,9999}$)x+$"])
def test_a_pattern_with_the_most_repetitions_is_checked_before_sending(pattern: str) -> None:
    declared = contract(code={"type": "string", "pattern": pattern})
    schema = EventValidator([declared])
    schema.check(event(declared, code="x" * 9999))
    with pytest.raises(BadInput):
        schema.check(event(declared, code="x" * 10_000))


def test_a_pattern_that_is_too_large_to_check_before_sending_is_named() -> None:
    declared = contract(code={"type": "string", "pattern": "^(.{1,1000}){1,100}$"})
    with pytest.raises(BadDefinition, match=r"pattern '.*' is too large to check records before") as error:
        EventValidator([declared])
    assert error.value.code == "CONTRACT_SCHEMA"
    assert "landing checks records by it all the same" in error.value.state


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return load_settings(home=tmp_path / "home")


@pytest.mark.parametrize("node", [{"type": "string", "format": "email"}, {"type": "string", "pattern": r"^\p{L}+$"}])
def test_a_landed_version_that_is_refused_today_can_be_mended(settings: Settings, node: dict[str, Any]) -> None:
    mended = contract(code=TEXT, n={"type": "integer"})
    before = {**mended.schema, "properties": {"code": node, "n": {"type": "integer"}}}
    record = ContractRecord(mended.name, mended.version, "0" * 16, mended.compatibility, before)
    RECORD.write(record_path(settings, mended), record)
    topic = Topic("parcels", (mended,))
    assert check_registered(settings, topic) == [mended]
    register(settings, topic)
    assert check_registered(settings, topic) == []


@pytest.mark.parametrize(
    ("change", "code", "says"),
    [
        ("{", "DECLARATION_UNREADABLE", "it is no JSON"),
        ("[]", "DECLARATION_UNREADABLE", "it is no JSON object"),
        ("\xff", "DECLARATION_UNREADABLE", "it is no JSON"),
        ({"name": ...}, "DECLARATION_UNREADABLE", "name missing"),
        ({"version": ..., "schema": ...}, "DECLARATION_UNREADABLE", "version and schema missing"),
        ({"compatibility": "sideways"}, "DECLARATION_UNREADABLE", "compatibility 'sideways' is none of backward"),
        ({"compatibility": ["full"]}, "DECLARATION_UNREADABLE", "compatibility ['full'] is none of backward"),
        ({"name": 5}, "CONTRACT_NAME", "5 is no event type"),
        ({"version": "1"}, "CONTRACT_VERSION", "parcel.seen: version '1' is no whole number"),
        ({"version": 1.0}, "CONTRACT_VERSION", "parcel.seen: version 1.0 is no whole number"),
        ({"version": True}, "CONTRACT_VERSION", "parcel.seen: version True is no whole number"),
        ({"schema": []}, "CONTRACT_SCHEMA", "parcel.seen v1: the data must be an object"),
        (
            {"schema": {"type": "object", "properties": {"e": "string"}}},
            "CONTRACT_SCHEMA",
            "parcel.seen v1: data.e: 'string' is no object",
        ),
        (
            {"schema": {"type": "object", "properties": ["e"]}},
            "CONTRACT_SCHEMA",
            "parcel.seen v1: data: properties: ['e'] is no object",
        ),
        (
            {"schema": {"type": "object", "properties": {"e": {"type": "array", "items": "string"}}}},
            "CONTRACT_SCHEMA",
            "parcel.seen v1: data.e[]: 'string' is no object",
        ),
        (
            {"schema": {"type": "object", "properties": {"e": TEXT}, "required": "e"}},
            "CONTRACT_SCHEMA",
            "parcel.seen v1: data: required: 'e' is no list of names",
        ),
        (
            {"schema": {"type": "object", "properties": {"e": {**TEXT, "sent_as": 5}}}},
            "CONTRACT_SCHEMA",
            "parcel.seen v1: data.e: sent_as is 5",
        ),
        (
            {"schema": {"type": "object", "properties": {"e": {**TEXT, "enum": [{}]}}}},
            "CONTRACT_SCHEMA",
            "parcel.seen v1: data.e: enum has {}",
        ),
    ],
)
def test_whatever_is_wrong_with_a_file_is_said_with_its_name(tmp_path: Path, change: Any, code: str, says: str) -> None:
    file = tmp_path / "parcel.seen.v1.json"
    whole = {"name": "parcel.seen", "version": 1, "schema": {"type": "object", "properties": {"e": TEXT}}}
    if isinstance(change, str):
        file.write_text(change, "latin-1")
    else:
        file.write_text(json.dumps({key: each for key, each in {**whole, **change}.items() if each is not ...}))
    with pytest.raises(BadDefinition) as error:
        Contract.from_file(file)
    assert error.value.code == code
    assert error.value.what.startswith(f"{file}: {says}")
    assert error.value.next_step


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(BadDefinition) as error:
        Contract.from_file(tmp_path / "parcel.seen.v1.json")
    assert error.value.code == "DECLARATION_UNREADABLE"
