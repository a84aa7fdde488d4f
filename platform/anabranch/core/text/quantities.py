"""Formats counts and durations for people."""

from __future__ import annotations

_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))


def duration(seconds: float) -> str:
    """The two largest units: ``49 s``, ``8 min 54 s``, ``2 h 5 min``, ``3 d``."""
    left, parts = round(seconds), []
    for name, size in _UNITS:
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count:,} {name}")
    return " ".join(parts[:2]) or "0 s"


def counted(count: int, noun: str) -> str:
    """``1 day``, ``2,000 days``; for nouns whose plural ends in s."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")
