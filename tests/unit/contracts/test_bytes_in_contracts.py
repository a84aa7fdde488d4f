"""Bytes, in base64: the same to the declaration, the sender's check, HTTP's door and the reasons."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from anabranch.apps.cli._read_commands import plain
from anabranch.contracts import Contract, Event, PlainJson, Raw, Record, TimeField, Topic
from anabranch.contracts.fields.field_types import ShapesClash, kind, merge, same_shape
from anabranch.contracts.fields.registered_schema import RegisteredSchema
from anabranch.contracts.formats import shape_of
from anabranch.contracts.model.compatibility import check_versions
from anabranch.contracts.sending import EventValidator, RecordCheck
from anabranch.core.errors import BadDefinition, BadInput
from anabranch.ingest.landing.decoding._contract_reasons import contract_problems
from anabranch.ingest.landing.table.schema import arrow_type, parsed_ddl, spark_ddl
from anabranch.testing._values import values
from hypothesis import find, given
from hypothesis import strategies as st
from support.base64_texts import BASE64, NO_BASE64, bytes_in

pytestmark = pytest.mark.unit
BYTES: dict[str, Any] = {"type": "string", "contentEncoding": "base64"}
TEXT: dict[str, Any] = {"type": "string"}


def contract(version: int = 1, **fields: Any) -> Contract:
    return Contract("photo.taken", version, {"type": "object", "properties": fields})


TAKEN = contract(it=BYTES)
CHECK = RecordCheck(Topic("photos", (TAKEN,), records=PlainJson(id=Record.OFFSET, time=Record.APPEND_TIME)))


@pytest.mark.parametrize(
    ("value", "fits"), [*((each, True) for each in BASE64), *((each, False) for each in NO_BASE64)]
)
def test_door_and_reason_agree_about_a_value(value: Any, fits: bool) -> None:
    problem = CHECK.problem(json.dumps({"it": value}).encode(), {"it": value})
    reasons = list(contract_problems(TAKEN, {"it": value}))
    if fits:
        assert (problem, reasons) == (None, [])
        return
    assert reasons == ["contract: data.it is no base64"]
    assert problem is not None
    assert problem[0] == "it"
    if isinstance(value, str):
        assert problem[1].endswith('is not a "base64"')


@given(st.text("ABab01+/=-_ \n", max_size=12) | st.binary(max_size=9).map(lambda raw: base64.b64encode(raw).decode()))
def test_any_text_is_judged_as_the_standard_library_does(text: str) -> None:
    assert (not list(contract_problems(TAKEN, {"it": text}))) is (bytes_in(text) is not None), text


def test_the_column_holds_the_bytes() -> None:
    declared = contract(
        a=BYTES, b={"type": "array", "items": BYTES}, c={"type": "object", "additionalProperties": BYTES}
    )
    assert spark_ddl(declared.schema) == "struct<`a`: binary, `b`: array<binary>, `c`: map<string, binary>>"
    assert parsed_ddl(declared.schema) == "struct<`a`: string, `b`: array<string>, `c`: map<string, variant>>"
    assert arrow_type(BYTES) == pa.binary()


def test_they_are_a_type_of_their_own() -> None:
    assert kind(BYTES) == "string base64"
    assert not same_shape(BYTES, TEXT)
    with pytest.raises(ShapesClash):
        merge([{"type": "object", "properties": {"a": node}} for node in (BYTES, TEXT)])
    with pytest.raises(BadDefinition, match=r"data\.it was string and is string base64"):
        check_versions([contract(1, it=TEXT), contract(2, it=BYTES)])


@pytest.mark.parametrize(
    ("node", "says"),
    [
        ({**TEXT, "contentEncoding": "base32"}, "contentEncoding 'base32' of a string"),
        ({**TEXT, "contentEncoding": None}, "contentEncoding None of a string"),
        ({"type": "integer", "contentEncoding": "base64"}, "contentEncoding 'base64' of a integer"),
        ({**BYTES, "pattern": "^A"}, "pattern can't be checked of bytes"),
        ({**BYTES, "enum": ["AA=="]}, "enum can't be checked of bytes"),
        ({**BYTES, "format": "uuid"}, "format can't be checked of bytes"),
        ({**BYTES, "format": "date"}, "format can't be checked of bytes"),
    ],
)
def test_what_cannot_be_said_of_them_is_refused(node: dict[str, Any], says: str) -> None:
    with pytest.raises(BadDefinition) as error:
        contract(it=node)
    assert error.value.what == f"photo.taken v1: data.it: {says}"
    assert error.value.next_step


@pytest.mark.parametrize(
    "mapping",
    [
        PlainJson(id="it", time=Record.APPEND_TIME),
        PlainJson(id=Record.OFFSET, time=Record.APPEND_TIME, subject="it"),
        PlainJson(id=Record.OFFSET, time=TimeField("it", unit="s")),
        PlainJson(id=Record.OFFSET, time=TimeField("it", format="yyyy")),
        PlainJson(id=Record.OFFSET, time="it"),
    ],
)
def test_no_part_of_the_mapping_comes_from_them(mapping: PlainJson) -> None:
    with pytest.raises(BadDefinition, match="MAPPING"):
        Topic("photos", (TAKEN,), records=mapping)


def test_an_event_writes_bytes_as_base64_and_is_checked() -> None:
    event = Event("1", "/s", "photo.taken", "k", datetime(2013, 1, 1, tzinfo=UTC), {"it": b"\x00\xff"}, TAKEN.uri)
    assert json.loads(event.to_json())["data"] == {"it": "AP8="}
    validator = EventValidator([TAKEN])
    validator.check_bytes(event.to_json())
    with pytest.raises(BadInput, match='is not a "base64"'):
        validator.check_bytes(event.to_json().replace(b"AP8=", b"AP8"))


def test_schemas_of_others_and_raw_bytes_may_be_declared_as_them() -> None:
    fields = [{"name": "a", "type": "bytes"}, {"name": "b", "type": {"type": "fixed", "name": "f", "size": 2}}]
    schema = RegisteredSchema("avro", json.dumps({"type": "record", "name": "R", "fields": fields}))
    assert shape_of(schema).node["properties"] == {"a": BYTES, "b": BYTES}
    for node in (BYTES, TEXT):
        Topic("blobs", (contract(base64=node),), records=Raw(Record.OFFSET, Record.APPEND_TIME, form="base64"))


def test_readers_and_the_generator_of_data_have_them() -> None:
    assert plain(b"\x00\xff") == "AP8="
    assert find(values(BYTES), lambda found: len(found) == 1) == b"\x00"
