"""Landing's commits in the order in which a replay is given them, slice by slice, from all topics of a view."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from anabranch.change.replay.landing_mirror import LandedCommit, LandedCommits, Mirror
from anabranch.change.replay.rate_limit import next_size
from anabranch.lake import Cut, Position

_FIRST_RECORDS = 20_000
_SPEED_SECONDS = 5.0
"""How long a slice may last that is held to a multiple of real time."""


@dataclass(frozen=True, slots=True)
class Slice:
    """What was given: up to which ``cut``, how many records, and how far event time went on by it (seconds)."""

    cut: Cut
    records: int
    event_seconds: float


@dataclass
class LandingFeed:
    """``landing``: the table of each topic. ``mirrors``: where their mirrors are. ``until``: the last epochs to give,
    by topic; those of a topic that is left out have no end. ``mirror``: makes the mirror of a topic, given its table
    and its folder."""

    landing: Mapping[str, str]
    mirrors: Path
    until: Mapping[str, int] = field(default_factory=dict)
    mirror: Callable[[str, str, Path], Mirror] = field(default=lambda topic, uri, folder: Mirror(uri, folder))

    def __post_init__(self) -> None:
        self._mirrors = {topic: self.mirror(topic, uri, self.mirrors / topic) for topic, uri in self.landing.items()}
        self._commits = {topic: LandedCommits(uri) for topic, uri in self.landing.items()}
        self._waiting: deque[tuple[str, LandedCommit]] = deque()
        self._positions: dict[str, Position] = {}
        self._newest_us: int | None = None
        self._times: dict[str, int] = {}
        self._ended: set[str] = set()
        self._size = _FIRST_RECORDS
        self.done = 0
        self.total = 0
        self.event_seconds = 0.0
        self.look()

    @property
    def uris(self) -> dict[str, str]:
        """The mirrors, for the stream."""
        return {topic: mirror.uri for topic, mirror in self._mirrors.items()}

    @property
    def cut(self) -> Cut:
        """What has been given so far."""
        return Cut(dict(self._positions))

    def look(self) -> bool:
        """Find what has landed since; whether there is anything to give."""
        found = [(time, topic, commit) for topic in self._commits for time, commit in self._more(topic)]
        for _, topic, commit in sorted(found, key=lambda each: each[0]):
            self.total += commit.rows
            if commit.version <= self._mirrors[topic].given:  # before a kill
                self._note(topic, commit)
            else:
                self._waiting.append((topic, commit))
        return bool(self._waiting)

    def give(self, event_seconds: float | None = None) -> Slice:
        """Give the next slice, of at most ``event_seconds`` of event time (None: no matter)."""
        records, begin, given = 0, self.event_seconds, dict[str, int]()
        while self._waiting:
            topic, commit = self._waiting[0]
            if given and records + commit.rows > self._size:
                break
            if given and event_seconds is not None and self.event_seconds - begin >= event_seconds:
                break
            self._waiting.popleft()
            self._note(topic, commit)
            given[topic] = commit.version
            records += commit.rows
        for topic, version in given.items():
            self._mirrors[topic].give(version)
        return Slice(self.cut, records, self.event_seconds - begin)

    def took(self, given: Slice, seconds: float) -> None:
        """Let the next slice be so large that it takes about as long as one should."""
        if given.records:
            self._size = next_size(given.records, seconds)

    def _more(self, topic: str) -> Iterator[tuple[int, LandedCommit]]:
        """The topic's next commits up to its end, each with a time that never goes back: a clock may."""
        last = self.until.get(topic)
        for commit in self._commits[topic].more():
            if last is not None and commit.cut is not None and commit.cut.epoch(topic) > last:
                self._ended.add(topic)
            if topic not in self._ended:
                self._times[topic] = max(self._times.get(topic, 0), commit.commit_time_ms)
                yield self._times[topic], commit

    def _note(self, topic: str, commit: LandedCommit) -> None:
        self.done += commit.rows
        if commit.cut is not None:
            self._positions[topic] = commit.cut.positions.get(topic, Position(0, {}))
        if commit.newest_us is not None:
            if self._newest_us is not None:
                self.event_seconds += max(0, commit.newest_us - self._newest_us) / 1e6
            self._newest_us = max(self._newest_us or commit.newest_us, commit.newest_us)


def event_limit(speed: float) -> float | None:
    """The event time of a slice that is held to ``speed`` times real time."""
    return speed * _SPEED_SECONDS if speed else None
