"""Measures how far a view is behind landing: in epochs, and in seconds since the oldest missing epoch landed."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import reduce
from threading import Lock

from anabranch.core.settings import Settings
from anabranch.lake import Commit, commit_history, latest_commit
from anabranch.lake.cut import Cut
from anabranch.lake.layout import landing_table
from anabranch.serve.open_tables import OpenTables

_MOST = 50
"""Maximum number of commits that are searched for the first epoch that a view lacks."""


@dataclass(frozen=True, slots=True)
class Lag:
    """``epochs``: landed epochs that the view doesn't cover. ``seconds``: since the first of them landed; ``more``: it
    landed even earlier than the commits that were searched."""

    epochs: int = 0
    seconds: float = 0.0
    more: bool = False


@dataclass
class Landing:
    """Landing at one moment, for any number of views: each of its tables is read once."""

    settings: Settings
    clock: Callable[[], float] = time.time
    _newest: dict[str, Commit | None] = field(default_factory=dict)
    _waiting: dict[tuple[str, int], tuple[int, bool]] = field(default_factory=dict)

    def newest(self, topic: str) -> Commit | None:
        """The newest commit of a topic's landing; None if there is none yet."""
        if topic not in self._newest:
            self._newest[topic] = next(iter(_commits(landing_table(self.settings, topic))), None)
        return self._newest[topic]

    def position(self, cut: Cut) -> str:
        """Landing's position in the topics of ``cut``, as text."""
        found = {topic: self.newest(topic) for topic in sorted(cut.positions)}
        return ",".join(f"{topic}@{at.note.cut.epoch(topic)}" for topic, at in found.items() if at) or "nothing"

    def behind(self, cut: Cut) -> Lag:
        newest = [commit.note.cut for topic in cut.positions if (commit := self.newest(topic)) is not None]
        behind = cut.behind(reduce(Cut.joined, newest, Cut()))
        found = [self._first_missing(topic, cut.epoch(topic), missing) for topic, missing in behind.items()]
        since = min((first for first, _ in found), default=None)
        seconds = max(0.0, self.clock() - since / 1000) if since is not None else 0.0
        return Lag(sum(behind.values()), seconds, any(more for _, more in found))

    def _first_missing(self, topic: str, epoch: int, missing: int) -> tuple[int, bool]:
        """Returns when (ms since 1970) the first epoch after ``epoch`` landed, or the oldest that was searched; and
        whether an earlier one is missing."""
        if (topic, epoch) not in self._waiting:
            commits = _commits(landing_table(self.settings, topic), min(missing + 2, _MOST))
            later = [each for each in [*commits, self.newest(topic)] if each and each.note.cut.epoch(topic) > epoch]
            oldest = min(later, key=lambda committed: committed.commit_time_ms)
            self._waiting[topic, epoch] = oldest.commit_time_ms, oldest.note.cut.epoch(topic) > epoch + 1
        return self._waiting[topic, epoch]


_tables = OpenTables()
_lock = Lock()


def _commits(uri: str, limit: int | None = None) -> list[Commit]:
    """Returns the newest commit, or the ``limit`` newest ones. The table stays open, so that only new commits are
    read."""
    with _lock:
        table = _tables.newest(uri)
        if table is None:
            return []
        return (
            list(commit_history(table, limit))
            if limit
            else [committed for committed in [latest_commit(table)] if committed]
        )
