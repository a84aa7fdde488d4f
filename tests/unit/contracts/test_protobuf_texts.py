"""Texts of Protobuf: of proto2 the library doesn't check that they are UTF-8."""

from __future__ import annotations

import json

import pytest
from anabranch.contracts.formats import Undecodable, encode, protobuf_reader
from support.proto2_records import NO_UTF8, field, label, proto2_schema

ID = field(1, b"t-1")


def read(value: bytes) -> dict[str, object]:
    found: dict[str, object] = json.loads(encode(protobuf_reader(proto2_schema()).read(b"\x00" + value, 0, "a test")))
    return found


def test_texts_and_bytes_of_proto2_are_what_was_sent() -> None:
    assert read(ID + field(2, "Zürich".encode()) + label(b"a", b"b") + field(4, b"x") + field(5, NO_UTF8)) == {
        "id": "t-1",
        "note": "Zürich",
        "labels": {"a": "b"},
        "tags": ["x"],
        "raw": "WvxyaWNo",
    }


@pytest.mark.parametrize(
    "value",
    [field(2, NO_UTF8), field(4, b"x") + field(4, NO_UTF8), label(b"a", NO_UTF8), label(NO_UTF8, b"b")],
    ids=["a text", "one of several", "a value of a map", "a key of a map"],
)
def test_a_text_of_proto2_that_is_no_utf8_is_refused(value: bytes) -> None:
    with pytest.raises(Undecodable, match=r"not_utf8: .* no UTF-8"):
        read(ID + value)
