"""Who still reads landing commit by commit, and so needs files and commits that nobody else needs any more."""

from __future__ import annotations

from anabranch.change.replay.state import read_state
from anabranch.core.errors import BrokenState
from anabranch.core.settings import SAFE_NAME, Settings


def replay_over(settings: Settings, topic: str) -> str:
    """A replay that has begun over this topic and not ended, in words; empty where there is none. One that was killed
    goes on where it was: it counts."""
    for mirror in sorted((settings.home / "replays").glob(f"*/v*/*/{topic}")):
        run, version, view = mirror.parent.name, mirror.parents[1].name[1:], mirror.parents[2].name
        if not (SAFE_NAME.fullmatch(view) and version.isdecimal()):
            continue
        try:
            standing = read_state(settings, view, int(version), run)
        except BrokenState as error:
            return f"replay {run} of {view} v{version}, of which nobody knows whether it has ended ({error.what}),"
        if standing is not None and not standing.ended:
            return f"replay {run} of {view} v{version}"
    return ""
