"""Reads StatsD's lines: ``name:value|type``, then ``|@rate`` and ``|#tag:value,tag`` in any order; several in a packet.

Also of DogStatsD: several values (``name:1:2:3|d``), a time (``|T1656581400``, in seconds), and ``|c:...``, which names
a container and is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Context, Decimal, InvalidOperation
from typing import Any, Final

from anabranch.contracts.model.metrics import KINDS, PRECISION, SCALE

MOST_NAME: Final = 500
"""Characters of a metric's name, which is the key of its record."""
_NUMBER: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
_UNIT: Final = Decimal(1).scaleb(-SCALE)
_CONTEXT: Final = Context(prec=PRECISION, rounding=ROUND_HALF_EVEN)
_LATEST: Final = 253_402_300_799
"""The last second of the year 9999."""


class Malformed(Exception):
    """A line that can't be read; its text is the kind of problem, without anything of the line."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of a metric. ``data``: as the contract has it. ``seconds``: when, if the line says it (Unix time)."""

    data: dict[str, Any]
    seconds: int | None = None


def read(packet: bytes) -> Iterator[Sample | Malformed]:
    """The samples of a packet, and for each line that can't be read what is wrong with it."""
    for line in packet.split(b"\n"):
        if not line.strip():
            continue
        try:
            yield from _line(line.strip(b"\r").decode())
        except Malformed as problem:
            yield problem
        except UnicodeDecodeError:
            yield Malformed("not UTF-8")


def _line(line: str) -> list[Sample]:
    front, *sections = line.split("|")
    name, *values = front.split(":")
    if not name or len(name) > MOST_NAME:
        raise Malformed("no name" if not name else f"a name of more than {MOST_NAME} characters")
    if not values:
        raise Malformed("no value")
    if not sections:
        raise Malformed("no type")
    kind = KINDS.get(sections[0])
    if kind is None:
        raise Malformed(f"a type that is none of {', '.join(KINDS)}")
    rate, tags, seconds = "1", list[str](), None
    for section in sections[1:]:
        if section.startswith("@"):
            rate = _rate(section[1:])
        elif section.startswith("#"):
            tags = [tag for tag in section[1:].split(",") if tag]
        elif section.startswith("T"):
            seconds = _seconds(section[1:])
        elif not section.startswith("c:"):
            raise Malformed("a section that is none of @rate, #tags, Ttime, c:container")
    return [
        Sample(
            {
                "name": name, "kind": kind, "value": decimal(value), "relative": kind == "gauge" and value[:1] in "+-",
                "sample_rate": rate, "tags": tags,
            },
            seconds,
        )
        for value in values
    ]  # fmt: skip


def decimal(text: str) -> str:
    """A number as the contract's decimals are written: without an exponent, rounded to their scale."""
    if not _NUMBER.fullmatch(text):
        raise Malformed("a value that is no number")
    try:
        number = _CONTEXT.quantize(Decimal(text), _UNIT)
    except InvalidOperation:
        raise Malformed(f"a value of more than {PRECISION - SCALE} digits before the point") from None
    written = f"{number:f}".rstrip("0").rstrip(".")
    return "0" if written == "-0" else written


def _rate(text: str) -> str:
    problem = Malformed("a sample rate that is not above 0 and at most 1")
    try:
        rate = decimal(text)
    except Malformed:
        raise problem from None
    if not 0 < Decimal(rate) <= 1:
        raise problem
    return rate


def _seconds(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 12 or int(text) > _LATEST:
        raise Malformed("a time that is no Unix time")
    return int(text)
