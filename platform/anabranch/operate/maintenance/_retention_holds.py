"""Finds replays that still read landing commit by commit, and so need its old files and commits."""

from __future__ import annotations

from anabranch.change.replay.state import read_state
from anabranch.core.errors import BrokenState
from anabranch.core.settings import SAFE_NAME, Settings
from anabranch.lake.layout import VersionRef


def replay_over(settings: Settings, topic: str) -> str:
    """Describes a replay over this topic that has begun and not ended; "" if there is none. A killed replay counts,
    because it can continue."""
    for mirror in sorted((settings.home / "replays").glob(f"*/v*/*/{topic}")):
        run, version, view = mirror.parent.name, mirror.parents[1].name[1:], mirror.parents[2].name
        if not (SAFE_NAME.fullmatch(view) and version.isdecimal()):
            continue
        try:
            standing = read_state(VersionRef(settings, view, int(version)), run)
        except BrokenState as error:
            return f"replay {run} of {view} v{version}, whose state can't be read ({error.what}),"
        if standing is not None and not standing.ended:
            return f"replay {run} of {view} v{version}"
    return ""
