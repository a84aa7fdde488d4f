"""Checks what killed processes leave: records of running services, and draft files that were never renamed."""

from __future__ import annotations

from collections.abc import Iterator

from anabranch.core.atomic_files import ATOMIC_FOLDERS, abandoned_drafts
from anabranch.operate.doctor._context import Context
from anabranch.operate.doctor._findings import Finding, Severity
from anabranch.operate.runtime import process_registry
from anabranch.operate.runtime.process_registry import SUPERVISOR

_NOTICED = 2 * 86_400
"""Seconds after which a daily maintenance should have run."""


def parts(context: Context) -> Iterator[Finding]:
    """PROCESS_GONE, UNWATCHED: services without a supervisor. Services with a live supervisor are skipped: it restarts
    them."""
    found = process_registry.read(context.settings)
    supervisor = found.pop(SUPERVISOR, None)
    if supervisor is not None and supervisor.process() is not None:
        return
    alive = sorted(name for name, record in found.items() if record.process() is not None)
    dead = sorted(name for name, record in found.items() if record.state != "done" and name not in alive)
    dead += [SUPERVISOR] if supervisor is not None else []
    if alive:
        what = f"{', '.join(alive)} run without a supervisor: a service that dies is not restarted"
        yield Finding("UNWATCHED", str(context.settings.run), what, "anabranch down, then anabranch up")
    elif dead:
        what = f"{', '.join(dead)} died without being stopped"
        next_step = "anabranch up to start again, or anabranch down to leave it stopped"
        yield Finding("PROCESS_GONE", str(context.settings.run), what, next_step, Severity.DOUBTFUL)


def drafts(context: Context) -> Iterator[Finding]:
    """DRAFT_LEFT: a draft file of a dead process that no maintenance has deleted."""
    old = context.now - _NOTICED
    found = [path for folder in ATOMIC_FOLDERS for path in abandoned_drafts(context.settings.home / folder)]
    found = [path for path in found if path.stat().st_mtime < old]
    if found:
        what = f"{len(found)} draft files were left by processes that died; the files that they replace are intact"
        yield Finding("DRAFT_LEFT", str(found[0]), what, "anabranch maintain deletes them", Severity.DOUBTFUL)
