"""Finds replays that still read landing commit by commit, and so need its old files and commits."""

from __future__ import annotations

from anabranch.change.replay.state import read_state
from anabranch.core.errors import BrokenState
from anabranch.core.settings import Settings
from anabranch.core.storage import listed
from anabranch.lake.layout import versions_below


def replay_over(settings: Settings, topic: str) -> str:
    """Describes a replay over this topic that has begun and not ended; "" if there is none. A killed replay counts,
    because it can continue. Raises OSError if mirrors can't be listed."""
    for ref in versions_below(settings, settings.home / "replays"):
        for run in (mirrors.name for mirrors in listed(ref.replay_mirrors) if listed(mirrors, topic)):
            try:
                standing = read_state(ref, run)
            except BrokenState as error:
                return f"replay {run} of {ref}, whose state can't be read ({error.what}),"
            if standing is not None and not standing.ended:
                return f"replay {run} of {ref}"
    return ""
