"""Confluent's wire format: a zero byte, the id of the schema in four bytes (big-endian), then the value.

In front of a Protobuf message stands the path to its type in the schema's file: zigzag varints, their count first; a
single zero byte is the first message.
"""

from __future__ import annotations

from typing import Final

from anabranch.contracts.formats._document import Undecodable

HEAD: Final = 5
"""Bytes in front of the value."""


def schema_id(value: bytes) -> int:
    """The id of the schema that a record names. Raises Undecodable."""
    if len(value) < HEAD:
        raise Undecodable(f"no_schema_id: {len(value)} bytes are too few for a schema id and a value")
    if value[0] != 0:
        raise Undecodable(f"no_schema_id: the first byte is {value[0]:#04x}, not 0 (Confluent's wire format)")
    return int.from_bytes(value[1:HEAD], "big")


def head_of(schema_id: int) -> bytes:
    """The bytes in front of a value that names this schema."""
    return b"\x00" + schema_id.to_bytes(HEAD - 1, "big")


def message_path(value: bytes, begin: int) -> tuple[tuple[int, ...], int]:
    """The indexes that lead to a Protobuf message's type, from the byte ``begin`` on, and the place of the message's
    first byte. Raises Undecodable."""
    count, place = _varint(value, begin)
    if count == 0:
        return (0,), place
    if not 0 < count <= 16:
        raise Undecodable(f"not_protobuf: {count} steps to the message's type, at byte {begin}")
    path = []
    for _ in range(count):
        step, place = _varint(value, place)
        path.append(step)
    return tuple(path), place


def _varint(value: bytes, place: int) -> tuple[int, int]:
    """A zigzag varint of at most five bytes, and the place behind it."""
    found = 0
    for n, byte in enumerate(value[place : place + 5]):
        found |= (byte & 0x7F) << 7 * n
        if byte < 0x80:
            return (found >> 1) ^ -(found & 1), place + n + 1
    raise Undecodable(f"not_protobuf: no path to the message's type at byte {place}")
