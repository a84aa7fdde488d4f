"""The feed of a replay: releases landing's commits to the replay's stream, in slices, from all topics of a view.

Landing makes up to one commit a second, for years. So they are read twice, to be counted and to be released, and never
held.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from anabranch.change.replay.landing_mirror import LandedCommit, LandedCommits, Mirror
from anabranch.change.replay.rate_limit import next_size
from anabranch.lake.cut import Cut, Position

_FIRST_RECORDS = 20_000
_SPEED_SECONDS = 5.0
"""How long a slice may take when the speed is limited to a multiple of real time."""


@dataclass(frozen=True, slots=True)
class Slice:
    """A released slice: the ``cut`` it ends at, its number of records, and by how many seconds event time advanced."""

    cut: Cut
    records: int
    event_seconds: float


@dataclass
class LandingFeed:
    """``landing``: the table of each topic. ``mirrors``: the folder of their mirrors. ``until``: the last epoch to
    release, by topic; a topic that isn't listed has no end. Later commits wait for ``extend``. ``mirror``: creates a
    topic's mirror from the topic's name, its table and the mirror's folder."""

    landing: Mapping[str, str]
    mirrors: Path
    until: Mapping[str, int] = field(default_factory=dict)
    mirror: Callable[[str, str, Path], Mirror] = field(default=lambda topic, uri, folder: Mirror(uri, folder))

    def __post_init__(self) -> None:
        self._mirrors = {topic: self.mirror(topic, uri, self.mirrors / topic) for topic, uri in self.landing.items()}
        self._known = {topic: LandedCommits(uri) for topic, uri in self.landing.items()}
        self._waiting = {topic: LandedCommits(uri) for topic, uri in self.landing.items()}
        self._last: dict[str, int] = {}
        self._positions: dict[str, Position] = {}
        self._newest_us: int | None = None
        self._times: dict[str, int] = {}
        self._size = _FIRST_RECORDS
        self.done = 0
        self.total = 0
        self.event_seconds = 0.0
        self.poll()

    @property
    def uris(self) -> dict[str, str]:
        """The mirrors' tables, which the stream reads."""
        return {topic: mirror.uri for topic, mirror in self._mirrors.items()}

    @property
    def cut(self) -> Cut:
        """The cut that has been released so far."""
        return Cut(dict(self._positions))

    @property
    def newest_day(self) -> str:
        """The day of the newest event that has been released, like 2013-01-31; empty before the first."""
        if self._newest_us is None:
            return ""
        return datetime.fromtimestamp(self._newest_us // 1_000_000, UTC).date().isoformat()

    def poll(self) -> bool:
        """Count new commits of landing. Returns whether there is anything to release."""
        for topic, mirror in self._mirrors.items():
            self._count_new(topic)
            while (commit := self._next_of(topic)) is not None and commit.version <= mirror.released:
                self._take(topic, commit)  # released before a kill
        return self._next() is not None

    def extend(self, cut: Cut) -> None:
        """Move the end of each topic that has one to ``cut``, where that is later."""
        self.until = {topic: max(last, cut.epoch(topic)) for topic, last in self.until.items()}

    def release_next(self, event_seconds: float | None = None) -> Slice:
        """Release the next slice, of at most ``event_seconds`` of event time (None: no limit)."""
        records, begin, released = 0, self.event_seconds, dict[str, int]()
        while (waiting := self._next()) is not None:
            topic, commit = waiting
            if released and records + commit.rows > self._size:
                break
            if released and event_seconds is not None and self.event_seconds - begin >= event_seconds:
                break
            self._take(topic, commit)
            released[topic] = commit.version
            records += commit.rows
        for topic, version in released.items():
            self._mirrors[topic].release(version)
        return Slice(self.cut, records, self.event_seconds - begin)

    def adjust_size(self, released: Slice, seconds: float) -> None:
        """Set the size of the next slice so that it takes about as long as a slice should."""
        if released.records:
            self._size = next_size(released.records, seconds)

    def _count_new(self, topic: str) -> None:
        """Count the topic's new commits up to its end: these may be released."""
        end, known = self.until.get(topic), self._known[topic]
        while (commit := known.peek()) is not None:
            if end is not None and commit.cut is not None and commit.cut.epoch(topic) > end:
                return
            known.take()
            self.total += commit.rows
            self._last[topic] = commit.version

    def _next_of(self, topic: str) -> LandedCommit | None:
        """Return the topic's next commit to release."""
        commit = self._waiting[topic].peek()
        return commit if commit is not None and commit.version <= self._last.get(topic, -1) else None

    def _next(self) -> tuple[str, LandedCommit] | None:
        """Return the next commit to release, of all topics, with its topic."""
        found = [(topic, commit) for topic in self.landing if (commit := self._next_of(topic)) is not None]
        return min(found, key=lambda each: self._time(*each), default=None)

    def _time(self, topic: str, commit: LandedCommit) -> int:
        """The commit time, made monotonic, since clocks may go back."""
        return max(self._times.get(topic, 0), commit.commit_time_ms)

    def _take(self, topic: str, commit: LandedCommit) -> None:
        self._waiting[topic].take()
        self._times[topic] = self._time(topic, commit)
        self._count(topic, commit)

    def _count(self, topic: str, commit: LandedCommit) -> None:
        self.done += commit.rows
        if commit.cut is not None:
            self._positions[topic] = commit.cut.positions.get(topic, Position(0, {}))
        if commit.newest_us is not None:
            if self._newest_us is not None:
                self.event_seconds += max(0, commit.newest_us - self._newest_us) / 1e6
            self._newest_us = max(self._newest_us or commit.newest_us, commit.newest_us)


def event_limit(speed: float) -> float | None:
    """Return the seconds of event time per slice at ``speed`` times real time; None for no limit."""
    return speed * _SPEED_SECONDS if speed else None
