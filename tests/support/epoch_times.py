"""Times since 1970 as producers write them, and what they say by whole numbers alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from fractions import Fraction

UNITS = {"s": Fraction(10**6), "ms": Fraction(10**3), "us": Fraction(1), "ns": Fraction(1, 1000)}
NUMBERS = {
    "s": (
        "1709251200", "1709251200.0", "1709251200.123", "1709251200.123456", "1709251200.1234567",
        "1709251200.123456999", "1709251200.999999999999999", "1709251200.9999999999999999999", "0.000001",
        "1709251200.000001", "1709251200.0000009", "1714521599.999999", "17092512000e-1", "1.7092512E9", "-0.5",
        "-1.0000001", "0", "253402300799.999999",
    ),
    "ms": ("1709251200123", "1709251200123.5", "1709251200123.456", "1709251200123.4569", "1709251200123.456999999"),
    "us": ("1709251200123456", "1709251200123456.0", "1709251200123456.9", "9007199254740993"),
    "ns": ("1709251200123456789", "1709251200123456999", "1709251200123456999.5", "1709251200123457000"),
}  # fmt: skip
"""By unit, as JSON numbers."""
NO_TEXTS = (
    "", " 1709251200", "1709251200 ", "+1709251200", "1709251200.", ".5", "1,5", "1e9", "1.7E9", "NaN", "Infinity",
    "0x65e11d80", "1709251200s", "2024-03-01T00:00:00Z", "\u0661709251200", "17092512001709251200", "1_709_251_200",
    "1709251200\n", "--1", "1.2.3",
)  # fmt: skip
"""Texts that are no digits, for any unit."""


def time_in(text: str, unit: str) -> datetime | None:
    """What is below a microsecond is cut off; None for what no calendar has."""
    micros = Fraction(text) * UNITS[unit]
    try:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros.numerator // micros.denominator)
    except OverflowError:
        return None
