"""Texts that are UUIDs and times of day, texts that aren't, and both judged without a pattern or a line of ours."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

UUIDS: Final = (
    "550e8400-e29b-41d4-a716-446655440000",
    "550E8400-E29B-41D4-A716-446655440000",
    "550e8400-E29b-41d4-a716-44665544000f",
    "00000000-0000-0000-0000-000000000000",
    "ffffffff-ffff-ffff-ffff-ffffffffffff",
    "017f22e2-79b0-7cc3-98c4-dc0c0c07398f",
)
NO_UUIDS: Final[tuple[Any, ...]] = (
    "", "x", "550e8400e29b41d4a716446655440000", "{550e8400-e29b-41d4-a716-446655440000}",
    "urn:uuid:550e8400-e29b-41d4-a716-446655440000", "550e8400-e29b-41d4-a716-44665544000g",
    "550e8400-e29b-41d4-a716-44665544000", "550e8400-e29b-41d4-a716-4466554400000",
    " 550e8400-e29b-41d4-a716-446655440000", "550e8400-e29b-41d4-a716-446655440000\n",
    "550e840-0e29b-41d4-a716-446655440000", "\u066550e8400-e29b-41d4-a716-446655440000", 12, True, [], {},
)  # fmt: skip
TIMES: Final = (
    "00:00:00", "23:59:59", "10:15:00Z", "10:15:00.5", "10:15:00.123456789Z", "10:15:00+05:30", "10:15:00-23:59",
)  # fmt: skip
NO_TIMES: Final[tuple[Any, ...]] = (
    "", "10:15", "10:15Z", "24:00:00", "23:60:00", "23:59:60", "10:15:00z", "10:15:00.", "10:15:00.1234567890",
    "10:15:00,5", "10:15:00+0530", "10:15:00+24:00", "10:15:00+05:60", "1:15:00", "T10:15:00", " 10:15:00",
    "10:15:00\n", "10:15:00ZZ", "\uff110:15:00", "2024-03-01T10:15:00Z", 101500, 10.15, False, [], {},
)  # fmt: skip
DATE_TIMES: Final = (
    "2024-02-29T10:15:00Z", "2024-03-01T10:15:00.5+05:30", "2024-03-01T10:15:00.123456789-17:59",
    "2024-03-01T10:15:00+18:00", "2024-03-01T10:15:00-18:00", "0001-01-01T00:00:00Z", "0001-01-01T00:00:00-05:00",
    "0001-01-01T00:00:00+00:00", "9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59+05:00",
    "9999-12-31T23:59:59-00:00",
)  # fmt: skip
NO_DATE_TIMES: Final[tuple[Any, ...]] = (
    "", "2024-03-01", "2024-03-01 10:15:00Z", "2024-03-01T10:15:00", "2023-02-29T10:15:00Z", "2024-03-01T24:00:00Z",
    "2024-03-01T10:60:00Z", "2016-12-31T23:59:60Z", "2024-03-01T10:15:00+18:01", "2024-03-01T10:15:00-19:00",
    "2024-03-01T10:15:00+23:59", "2024-03-01T10:15:00+05:60", "2024-03-01T10:15:00+0530", "2024-03-01T10:15:00z",
    "2024-03-01t10:15:00Z", "2024-03-01T10:15Z", "2024-03-01T10:15:00.Z", "2024-03-01T10:15:00.1234567890Z",
    "0000-12-31T23:59:59Z", "0001-01-01T00:00:00+00:01", "0001-01-01T05:00:00+06:00", "9999-12-31T23:59:59-00:01",
    "9999-12-31T23:59:59-05:00", "10000-01-01T00:00:00Z", " 2024-03-01T10:15:00Z", "2024-03-01T10:15:00Z\n",
    "\uff12024-03-01T10:15:00Z", 1709288100, True, [], {},
)  # fmt: skip
"""The last of the year 9999, the first of the year 1: of a time that lies before or behind them in UTC, too, landing
and the other checks say no, also where one more hour would be in these years."""


def is_uuid(text: str) -> bool:
    try:
        return str(UUID(text)) == text.lower() and text.isascii()
    except ValueError:
        return False


def is_time_of_day(text: str) -> bool:
    """By position and number: hours, minutes and seconds, a fraction, an offset."""
    zone = text[-6:] if text[-6:-5] in ("+", "-") and text[-6:-5] else "Z" if text.endswith("Z") else ""
    clock, point, fraction = text.removesuffix(zone).partition(".")
    if point and not (1 <= len(fraction) <= 9 and _digits(fraction)):
        return False
    if zone not in ("", "Z") and not _is_clock(zone[1:], (24, 60)):
        return False
    return _is_clock(clock, (24, 60, 60))


def _is_clock(text: str, limits: tuple[int, ...]) -> bool:
    parts = text.split(":")
    return len(parts) == len(limits) and all(
        len(part) == 2 and _digits(part) and int(part) < limit for part, limit in zip(parts, limits, strict=True)
    )


def _digits(text: str) -> bool:
    return text.isascii() and text.isdigit()
