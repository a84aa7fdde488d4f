"""Derive when each version of a search is active, from the events that saved, changed and removed it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Final, NamedTuple

from anabranch.views.saved_searches._intervals import HIGH, Cut, Span, before

TIME: Final = "event_time"


class Version(NamedTuple):
    """A search as one event saved it; without an expression it is removed. ``event_time`` is in microseconds."""

    search: str
    event_time: int
    log_partition: int
    log_offset: int
    expression: str | None


@dataclass(frozen=True, slots=True)
class ActiveVersion:
    """A version, and the span of event times in which it is the newest one of its search."""

    version: Version
    times: Span


def sort_versions(versions: Iterable[Version]) -> tuple[Version, ...]:
    """Sorted by search, then from the oldest to the newest version, without repeats."""
    return tuple(sorted(set(versions), key=_order))


def active_versions(versions: Iterable[Version], lasts: int | None) -> Iterator[ActiveVersion]:
    """The versions (from ``sort_versions``) that are active at some time, each for at most ``lasts`` microseconds."""
    for _, found in groupby(versions, key=lambda version: version.search):
        for version, following in pairwise([*found, None]):
            if version is None or version.expression is None:
                continue
            ends = [following.event_time] if following else []
            ends += [] if lasts is None else [version.event_time + lasts]
            if not ends or version.event_time < min(ends):
                end: Cut = before(min(ends)) if ends else HIGH
                yield ActiveVersion(version, (before(version.event_time), end))


def _order(version: Version) -> tuple[str, int, int, int, bool, str]:
    """The expression comes last: it only decides between two versions at the same position of the log."""
    expression = version.expression
    return (*version[:4], expression is None, expression or "")
