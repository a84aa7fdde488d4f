"""From the events that saved, changed and removed searches to the time in which each version counts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Final, NamedTuple

from anabranch.views.saved_searches.intervals import HIGH, Cut, Span, before

TIME: Final = "event_time"


class Version(NamedTuple):
    """A search as an event left it; without an expression it is removed. ``event_time`` is in microseconds."""

    search: str
    event_time: int
    log_partition: int
    log_offset: int
    expression: str | None


@dataclass(frozen=True, slots=True)
class Counting:
    """A version, and the event times from which and before which it is the newest one of its search."""

    version: Version
    times: Span


def ordered(versions: Iterable[Version]) -> tuple[Version, ...]:
    """By search, each one's versions from the oldest to the newest; what is there twice is there once."""
    return tuple(sorted(set(versions), key=_order))


def counting(versions: Iterable[Version], lasts: int | None) -> Iterator[Counting]:
    """Of ``ordered`` versions those that count at some time, for at most ``lasts`` microseconds each."""
    for _, found in groupby(versions, key=lambda version: version.search):
        for version, following in pairwise([*found, None]):
            if version is None or version.expression is None:
                continue
            ends = [following.event_time] if following else []
            ends += [] if lasts is None else [version.event_time + lasts]
            if not ends or version.event_time < min(ends):
                end: Cut = before(min(ends)) if ends else HIGH
                yield Counting(version, (before(version.event_time), end))


def _order(version: Version) -> tuple[str, int, int, int, bool, str]:
    """The expression last: it decides nothing, but a position that is there twice."""
    expression = version.expression
    return (*version[:4], expression is None, expression or "")
