"""Accidents that happen to the bytes of a record."""

from __future__ import annotations

from random import Random

from hypothesis import strategies as st

HOSTILE = [
    b"\x00",
    b"\xff",
    b'"',
    b"{",
    b"}",
    b"[",
    b"\\",
    b"\\u0000",
    b"\\ud800",
    b"null",
    b"1e999",
    b"-0",
    b"\n",
    b",",
]
KINDS = ["cut", "drop", "flip", "insert", "twice", "swap"]


ACCIDENTS = st.tuples(st.sampled_from(KINDS), st.integers(0, 10_000), st.integers(0, 255))


def accident(chance: Random) -> tuple[str, int, int]:
    """What happens, where, and with which byte."""
    return chance.choice(KINDS), chance.randint(0, 10_000), chance.randint(0, 255)


def fuzzed(value: bytes, steps: list[tuple[str, int, int]]) -> bytes:
    """A valid record after some accidents."""
    for kind, at, byte in steps:
        place = at % (len(value) + 1)
        match kind:
            case "cut":
                value = value[:place]
            case "drop":
                value = value[:place] + value[place + 1 + byte % 8 :]
            case "flip":
                value = value[:place] + bytes([byte]) + value[place + 1 :]
            case "insert":
                value = value[:place] + HOSTILE[byte % len(HOSTILE)] + value[place:]
            case "twice":
                value = value[:place] + value[max(place - byte, 0) :]
            case "swap":
                value = value[place:] + value[:place]
    return value
