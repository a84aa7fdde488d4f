"""What processes leave that were killed: records that call them running, and drafts that never got their name."""

from __future__ import annotations

from collections.abc import Iterator

from anabranch.core.atomic_files import ATOMIC_FOLDERS, abandoned_drafts
from anabranch.operate.doctor.context import Context
from anabranch.operate.doctor.findings import Finding, Severity
from anabranch.operate.runtime import process_registry
from anabranch.operate.runtime.process_registry import SUPERVISOR

_NOTICED = 2 * 86_400
"""Seconds after which a maintenance should have come by, where it is scheduled once a day."""


def parts(platform: Context) -> Iterator[Finding]:
    """PROCESS_GONE, UNWATCHED: records without a supervisor. What a living one watches is its own to mend."""
    found = process_registry.read(platform.settings)
    supervisor = found.pop(SUPERVISOR, None)
    if supervisor is not None and supervisor.process() is not None:
        return
    alive = sorted(name for name, record in found.items() if record.process() is not None)
    dead = sorted(name for name, record in found.items() if record.state != "done" and name not in alive)
    dead += [SUPERVISOR] if supervisor is not None else []
    if alive:
        what = f"{', '.join(alive)} run without a supervisor: what dies is not started again"
        yield Finding("UNWATCHED", str(platform.settings.run), what, "anabranch down, then anabranch up")
    elif dead:
        what = f"{', '.join(dead)} were started and live no more, and nobody has stopped them"
        mending = "anabranch up, or anabranch down to leave it stopped"
        yield Finding("PROCESS_GONE", str(platform.settings.run), what, mending, Severity.DOUBTFUL)


def drafts(platform: Context) -> Iterator[Finding]:
    """DRAFT_LEFT: a file that was being written by a process that lives no more, and that no maintenance took away."""
    old = platform.now - _NOTICED
    found = [path for folder in ATOMIC_FOLDERS for path in abandoned_drafts(platform.settings.home / folder)]
    found = [path for path in found if path.stat().st_mtime < old]
    if found:
        what = f"{len(found)} files were being written by processes that live no more; what they replace is whole"
        yield Finding("DRAFT_LEFT", str(found[0]), what, "anabranch maintain takes them away", Severity.DOUBTFUL)
