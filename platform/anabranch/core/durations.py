"""Formats a duration for people."""

from __future__ import annotations


def duration(seconds: float) -> str:
    """``49 s``, ``8 min 54 s``, ``2 h 5 min``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours:,} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
