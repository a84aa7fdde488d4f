"""Finds replays that still read landing commit by commit, and so need its old files and commits."""

from __future__ import annotations

from anabranch.change.replay.state import read_state
from anabranch.core.errors import BrokenState
from anabranch.core.settings import Settings
from anabranch.core.storage import listed
from anabranch.lake.layout import VersionRef, versions_below


def replay_over(settings: Settings, topic: str) -> str:
    """Describes a replay over this topic that has begun and not ended; "" if there is none. A killed replay counts,
    because it can continue. Raises OSError if mirrors can't be listed, unless their replay has ended."""
    for ref in versions_below(settings, settings.home / "replays"):
        for mirrors in listed(ref.replay_mirrors):
            try:
                if listed(mirrors, topic) and (replay := _unended(ref, mirrors.name)):
                    return replay
            except OSError:
                if _unended(ref, mirrors.name):
                    raise
    return ""


def _unended(ref: VersionRef, run: str) -> str:
    """Describes a replay; "" if it has ended, or there is none."""
    try:
        state = read_state(ref, run)
    except BrokenState as error:
        return f"replay {run} of {ref}, whose state can't be read ({error.what}),"
    return f"replay {run} of {ref}" if state is not None and not state.ended else ""
