"""A number of Avro has ten bytes at most. fastavro takes any, and makes 2048 of one with 20; the engine's decoder
refuses it, and so do we: wherever it stands, and whatever bytes stand in front of it."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from typing import Any

import pytest
from anabranch.contracts.fields.registered_schema import RegisteredSchema
from anabranch.contracts.formats import Undecodable, avro_reader
from hypothesis import given
from hypothesis import strategies as st

pytestmark = pytest.mark.unit
SYMBOLS = ["A", "B"]
INNER = {"type": "record", "name": "Inner", "fields": [{"name": "n", "type": "long"}, {"name": "b", "type": "bytes"}]}
KINDS: dict[str, Any] = {
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.one_of(st.sampled_from([2**63 - 1, -(2**63)]), st.integers(-(2**63), 2**63 - 1)),
    "double": st.floats(allow_nan=False, allow_infinity=False),
    "bytes": st.one_of(st.sampled_from([b"", b"\xff", b"\x80" * 12]), st.binary(max_size=3)),
    "string": st.text(max_size=4),
    "fixed": st.sampled_from([b"\xff", b"\x80", b"\x01"]),
    "enum": st.sampled_from(SYMBOLS),
    "union": st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)),
    "array": st.lists(st.integers(-(2**63), 2**63 - 1), max_size=3),
    "map": st.dictionaries(st.text(max_size=2), st.binary(min_size=1, max_size=1), max_size=2),
    "record": st.fixed_dictionaries({"n": st.integers(-(2**63), 2**63 - 1), "b": st.binary(max_size=1)}),
}
COMPLEX: dict[str, Callable[[int], Any]] = {
    "fixed": lambda n: {"type": "fixed", "size": 1, "name": f"Fixed{n}"},
    "enum": lambda n: {"type": "enum", "symbols": SYMBOLS, "name": f"Enum{n}"},
    "union": lambda _: ["null", "long"],
    "array": lambda _: {"type": "array", "items": "long"},
    "map": lambda _: {"type": "map", "values": "bytes"},
    "record": lambda n: {**INNER, "name": f"Inner{n}"},
}
Number = Callable[[int], bytes]


def varint(number: int, size: int = 1) -> bytes:
    """In so many bytes, or more if it needs them."""
    left = ((number << 1) ^ (number >> 63)) & (2**64 - 1)
    found = bytearray()
    while left > 0x7F or len(found) < size - 1:
        found.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*found, left])


def encoded(kind: str, value: Any, number: Number) -> bytes:
    match kind:
        case "boolean":
            return bytes([value])
        case "int" | "long":
            return number(value)
        case "double":
            return struct.pack("<d", value)
        case "bytes":
            return number(len(value)) + bytes(value)
        case "string":
            return encoded("bytes", value.encode(), number)
        case "fixed":
            return bytes(value)
        case "enum":
            return number(SYMBOLS.index(value))
        case "union":
            return number(0) if value is None else number(1) + number(value)
        case "array":
            body = b"".join(number(each) for each in value)
            return (number(-len(value)) + number(len(body)) + body if value else b"") + number(0)
        case "map":
            pairs = (encoded("string", k, number) + encoded("bytes", v, number) for k, v in value.items())
            return (number(len(value)) + b"".join(pairs) if value else b"") + number(0)
    return number(value["n"]) + encoded("bytes", value["b"], number)


def reader(kinds: list[str]) -> Any:
    fields = [{"name": f"f{n}", "type": COMPLEX.get(kind, lambda _, k=kind: k)(n)} for n, kind in enumerate(kinds)]
    return avro_reader(RegisteredSchema("avro", json.dumps({"type": "record", "name": "R", "fields": fields})))


@given(st.data())
def test_a_number_of_more_than_ten_bytes_is_found_anywhere_and_nothing_else_is_taken_for_one(
    data: st.DataObject,
) -> None:
    kinds = data.draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=12))
    values = [data.draw(KINDS[kind]) for kind in kinds]
    sizes = data.draw(st.lists(st.sampled_from([1] * 20 + [9, 10, 11, 12, 20]), min_size=1, max_size=20))
    used: list[int] = []

    def number(value: int) -> bytes:
        used.append(sizes[len(used) % len(sizes)])
        return varint(value, used[-1])

    record = b"".join(encoded(kind, value, number) for kind, value in zip(kinds, values, strict=True))
    if max(used, default=0) > 10:
        with pytest.raises(Undecodable, match="is a number of more than 10 bytes"):
            reader(kinds).read(record, 0, "here")
    else:
        assert reader(kinds).read(record, 0, "here") == {f"f{n}": value for n, value in enumerate(values)}


LONGEST = varint(2**63 - 1)


@pytest.mark.parametrize("kind", ["bytes", "fixed"])
def test_one_byte_in_front_of_the_longest_number_is_no_part_of_it(kind: str) -> None:
    head = b"\x02" if kind == "bytes" else b""
    found = reader([kind, "long"]).read(head + b"\xff" + LONGEST, 0, "here")
    assert found == {"f0": b"\xff", "f1": 2**63 - 1}


def test_values_of_one_byte_each_are_no_number() -> None:
    assert reader(["fixed"] * 12).read(b"\xff" * 12, 0, "here") == {f"f{n}": b"\xff" for n in range(12)}


def test_it_says_where_the_number_is() -> None:
    with pytest.raises(Undecodable, match=r"^not_avro: at byte 3 is a number of more than 10 bytes \(here\)$"):
        reader(["bytes", "bytes", "long"]).read(b"\x02\xff\x00" + varint(7, 11), 0, "here")


@pytest.mark.parametrize("behind", [b"\xff" * 12, b""])
def test_another_fault_in_front_of_it_is_told_as_it_is(behind: bytes) -> None:
    with pytest.raises(Undecodable, match=r"number that no branch"):
        reader(["enum", "bytes", "long"]).read(varint(7) + varint(len(behind)) + behind + varint(7, 11), 0, "here")


def test_an_array_that_says_it_has_more_items_than_bytes_ends_at_once() -> None:
    items = {"type": "array", "items": {"type": "fixed", "size": 8, "name": "Eight"}}
    schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": items}]}
    many = avro_reader(RegisteredSchema("avro", json.dumps(schema)))
    with pytest.raises(Undecodable, match="it ends in the middle"):
        many.read(varint(2**62) + b"\xff" * 16, 0, "here")
