"""The number of an enum's symbol or of a union's branch counts from 0. fastavro takes a negative one from the end; the
engine's decoder refuses it, and so do we."""

from __future__ import annotations

import json
from io import BytesIO
from typing import Any

import fastavro
import pytest
from anabranch.contracts.fields.registered_schema import RegisteredSchema
from anabranch.contracts.formats import Undecodable, avro_reader
from hypothesis import given
from hypothesis import strategies as st

pytestmark = pytest.mark.unit
GATE = {"type": "enum", "name": "Gate", "symbols": ["A", "B", "C"]}
PLACE = {"type": "record", "name": "Place", "fields": [{"name": "gate", "type": "Gate"}]}
SCHEMA = {
    "type": "record",
    "name": "Flight",
    "fields": [
        {"name": "gate", "type": GATE},
        {"name": "seat", "type": ["null", "string"]},
        {"name": "next", "type": ["null", "Gate", "long", PLACE]},
        {"name": "all", "type": {"type": "array", "items": ["null", "Gate"]}},
    ],
}
REGISTERED = RegisteredSchema("avro", json.dumps(SCHEMA))
VALID = {"gate": "B", "seat": "7C", "next": "C", "all": ["A", None]}


def varint(number: int) -> bytes:
    left, found = (number << 1) ^ (number >> 63), bytearray()
    while left > 0x7F:
        found.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*found, left])


def encoded(gate: int = 1, seat: int = 1, following: tuple[int, int] = (1, 2), item: int = 1) -> bytes:
    numbers = varint(gate), varint(seat), varint(following[0]), varint(following[1])
    text = varint(2) + b"7C"
    return b"".join(
        (numbers[0], numbers[1], text, numbers[2], numbers[3], varint(2), varint(item), varint(0), varint(0), varint(0))
    )


def test_numbers_from_0_on_are_read() -> None:
    assert avro_reader(REGISTERED).read(encoded(), 0, "here") == VALID


@pytest.mark.parametrize("number", [-1, -2, -3, -4, -65, -(2**31), -(2**63), 4, 2**62])
@pytest.mark.parametrize("place", ["gate", "seat", "branch", "symbol of a branch", "item"])
def test_any_other_number_is_malformed(place: str, number: int) -> None:
    wrong = {
        "gate": {"gate": number},
        "seat": {"seat": number},
        "branch": {"following": (number, 2)},
        "symbol of a branch": {"following": (1, number)},
        "item": {"item": number},
    }[place]
    with pytest.raises(Undecodable, match=r"^not_avro: .*number"):
        avro_reader(REGISTERED).read(encoded(**wrong), 0, "here")  # type: ignore[arg-type]


def test_also_in_a_type_of_another_schema() -> None:
    whole = {"type": "record", "name": "R", "fields": [{"name": "gate", "type": "Gate"}]}
    registered = RegisteredSchema("avro", json.dumps(whole), (("Gate", json.dumps(GATE)),))
    assert avro_reader(registered).read(varint(2), 0, "here") == {"gate": "C"}
    with pytest.raises(Undecodable):
        avro_reader(registered).read(varint(-1), 0, "here")


def test_a_union_as_the_whole_is_read_by_the_same_rule() -> None:
    registered = RegisteredSchema("avro", json.dumps(["null", {"type": "record", "name": "R", "fields": [
        {"name": "n", "type": "long"}]}]))  # fmt: skip
    assert avro_reader(registered).read(varint(1) + varint(7), 0, "here") == {"n": 7}
    with pytest.raises(Undecodable):
        avro_reader(registered).read(varint(-1) + varint(7), 0, "here")


# An oracle of a few lines that knows nothing of fastavro.


def _long(stream: BytesIO) -> int:
    found = shift = 0
    while True:
        (byte,) = stream.read(1)
        found |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return (found >> 1) ^ -(found & 1)
        if shift > 63:
            raise ValueError("a number of more than ten bytes")


def _read(stream: BytesIO, schema: Any) -> Any:
    if isinstance(schema, list) or schema in ("Gate",) or (isinstance(schema, dict) and schema["type"] == "enum"):
        options = schema if isinstance(schema, list) else GATE["symbols"]
        number = _long(stream)
        if not 0 <= number < len(options):
            raise ValueError("no such number")
        return _read(stream, options[number]) if isinstance(schema, list) else options[number]
    if schema == "null":
        return None
    if schema == "long":
        return _long(stream)
    if schema == "string":
        size = _long(stream)
        if not 0 <= size <= len(stream.getvalue()):
            raise ValueError("no such size")
        text = stream.read(size)
        if len(text) < size:
            raise ValueError("it ends")
        return text.decode()
    if schema["type"] == "array":
        raise AssertionError("not in this property")
    return {field["name"]: _read(stream, field["type"]) for field in schema["fields"]}


SHORT = {**SCHEMA, "fields": SCHEMA["fields"][:3]}
_small = st.integers(-6, 6)


@given(st.lists(st.one_of(_small, st.integers(-(2**40), 2**40)), min_size=1, max_size=7), st.binary(max_size=4))
def test_bytes_are_read_as_the_specification_says_or_not_at_all(numbers: list[int], rest: bytes) -> None:
    value = b"".join(map(varint, numbers)) + rest
    stream = BytesIO(value)
    try:
        expected = _read(stream, SHORT)
        whole = stream.tell() == len(value)
    except (ValueError, TypeError):
        whole = False
    reader = avro_reader(RegisteredSchema("avro", json.dumps(SHORT)))
    if whole:
        assert reader.read(value, 0, "here") == expected
        assert fastavro.schemaless_reader(BytesIO(value), fastavro.parse_schema(SHORT), None) == expected
    else:
        with pytest.raises(Undecodable):
            reader.read(value, 0, "here")
