"""Heartbeat of the run that executes a migration: the modification time of one small file.

The migration's state is in its route, not here: nothing but the doctor reads the heartbeat, to see whether the run is
still alive.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path

from anabranch.core.atomic_files import write_atomically
from anabranch.core.settings import Settings
from anabranch.lake.layout import safe_name

log = logging.getLogger(__name__)


def record_heartbeat(settings: Settings, view: str, run: str) -> None:
    """Record that ``run`` has just checked the migration of ``view``. A failure to write is only logged."""
    try:
        write_atomically(_file(settings, view), json.dumps({"run": run}))
    except OSError as error:
        log.warning("the heartbeat of run %s, which migrates %s, could not be written: %s", run, view, error)


def last_heartbeat(settings: Settings, view: str, run: str) -> float | None:
    """Return the time of the last heartbeat of ``run`` (seconds since 1970); None if there is none."""
    path = _file(settings, view)
    try:
        moment, content = path.stat().st_mtime, json.loads(path.read_text())
    except FileNotFoundError:
        return None
    return moment if content["run"] == run else None


def _file(settings: Settings, view: str) -> Path:
    return settings.home / "control" / "migrations" / f"{safe_name(view, 'view')}.json"
