"""Where landing is now: the cut that views catch up with."""

from __future__ import annotations

from collections.abc import Iterable

from anabranch.core.settings import Settings
from anabranch.lake._commit_metadata import latest_commit
from anabranch.lake.cut import Cut, Position
from anabranch.lake.layout import landing_table


def landed_cut(settings: Settings, topics: Iterable[str]) -> Cut:
    """The newest cut that has landed of these topics; without those of which nothing has landed.

    Read what is compared with it first: landing may advance meanwhile. Raises what ``latest_commit`` raises.
    """
    positions = dict[str, Position]()
    for topic in topics:
        commit = latest_commit(landing_table(settings, topic))
        if commit is not None and topic in commit.note.cut.positions:
            positions[topic] = commit.note.cut.positions[topic]
    return Cut(positions)
