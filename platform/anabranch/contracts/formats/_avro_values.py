"""Reads encoded Avro values with fastavro, and refuses numbers of more than ten bytes, of which it keeps some bits."""

from __future__ import annotations

import re
from collections.abc import Sequence
from io import BytesIO
from typing import Any, Final

import fastavro

_MOST_BYTES: Final = 10
"""Of a number of 64 bits, which goes on behind each byte from 128 on."""
_MAY_BE_LONGER: Final = re.compile(rb"[\x80-\xff]{%d}" % _MOST_BYTES)
_SIZES: Final = {"null": 0, "boolean": 1, "float": 4, "double": 8}


class NumberTooLong(ValueError):
    """A number of more bytes than it may have."""


class AvroValues:
    """The values of one schema that stand one behind the other in ``encoded``, from ``begin`` on; ``parsed`` and
    ``expanded`` are what ``parsed_schema`` gives."""

    def __init__(self, parsed: Any, expanded: Any, encoded: bytes, begin: int = 0) -> None:
        self._parsed, self._expanded, self._encoded = parsed, expanded, encoded
        self._stream = BytesIO(encoded)
        self._stream.seek(begin)
        self._looked_at = _MAY_BE_LONGER.search(encoded, begin) is not None

    @property
    def place(self) -> int:
        """The byte up to which has been read."""
        return self._stream.tell()

    @property
    def least_bytes(self) -> int:
        """The fewest bytes of a value. If they are none, any number of values may be claimed."""
        return least_bytes(self._expanded)

    def read(self) -> Any:
        """The next value. Raises NumberTooLong, whose place is that of the number, and whatever fastavro does."""
        if self._looked_at:
            self._look_at_numbers()
        return fastavro.schemaless_reader(self._stream, self._parsed, None)

    def _look_at_numbers(self) -> None:
        try:
            _behind(self._expanded, self._encoded, self.place)
        except _TooLongAt as error:
            self._stream.seek(error.place)
            raise NumberTooLong(f"a number of more than {_MOST_BYTES} bytes") from None
        except IndexError:  # another fault in front of any such number, of which fastavro says what it is
            pass


class _TooLongAt(Exception):
    def __init__(self, place: int) -> None:
        super().__init__(place)
        self.place = place


def least_bytes(schema: Any) -> int:
    """The fewest bytes of a value of an expanded schema."""
    if isinstance(schema, str):
        return _SIZES.get(schema, 1)
    if isinstance(schema, list):
        return 1
    if schema["type"] in ("record", "error"):
        return sum(least_bytes(field["type"]) for field in schema["fields"])
    return int(schema["size"]) if schema["type"] == "fixed" else least_bytes(schema["type"])


def _behind(schema: Any, encoded: bytes, place: int) -> int:
    """The place behind a value. Raises IndexError if it is none."""
    if isinstance(schema, list):
        branch, place = _index(schema, encoded, place)
        return _behind(schema[branch], encoded, place)
    kind = schema if isinstance(schema, str) else schema["type"]
    if kind in ("int", "long"):
        return _number(encoded, place)[1]
    if kind == "enum":
        return _index(schema["symbols"], encoded, place)[1]
    if kind in ("bytes", "string"):
        return _behind_bytes(encoded, place)
    if kind in ("record", "error"):
        for field in schema["fields"]:
            place = _behind(field["type"], encoded, place)
        return place
    if kind in ("array", "map"):
        return _behind_blocks(schema, encoded, place)
    return place + (int(schema["size"]) if kind == "fixed" else _SIZES[kind])


def _behind_blocks(schema: Any, encoded: bytes, place: int) -> int:
    while True:
        count, place = _number(encoded, place)
        if count == 0:
            return place
        if count < 0:  # the number of its bytes follows
            _, place = _number(encoded, place)
        for _ in range(abs(count)):
            if place >= len(encoded):  # else values of a fixed size would go on behind it
                raise IndexError(place)
            if schema["type"] == "map":
                place = _behind(schema["values"], encoded, _behind_bytes(encoded, place))
            else:
                place = _behind(schema["items"], encoded, place)


def _index(options: Sequence[Any], encoded: bytes, place: int) -> tuple[int, int]:
    found, place = _number(encoded, place)
    if not 0 <= found < len(options):
        raise IndexError(found)
    return found, place


def _behind_bytes(encoded: bytes, place: int) -> int:
    size, place = _number(encoded, place)
    if size < 0:
        raise IndexError(size)
    return place + size


def _number(encoded: bytes, begin: int) -> tuple[int, int]:
    found = 0
    for size in range(_MOST_BYTES):
        byte = encoded[begin + size]
        found |= (byte & 0x7F) << (7 * size)
        if byte < 0x80:
            found &= 2**64 - 1
            return (found >> 1) ^ -(found & 1), begin + size + 1
    raise _TooLongAt(begin)
