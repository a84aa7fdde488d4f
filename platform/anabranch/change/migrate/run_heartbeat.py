"""Heartbeat of the run that executes a migration: the modification time of one small file.

The migration's state is in its route, not here: nothing but the doctor reads the heartbeat, to see whether the run is
still alive.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from anabranch.core.control_file import ControlFile
from anabranch.core.settings import Settings
from anabranch.core.storage import storage_of
from anabranch.lake.layout import safe_name

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Heartbeat:
    run: str


HEARTBEAT: Final = ControlFile("heartbeat of a migration", Heartbeat)


def record_heartbeat(settings: Settings, view: str, run: str) -> None:
    """Record that ``run`` has just checked the migration of ``view``. A failure to write is only logged."""
    try:
        HEARTBEAT.write(_file(settings, view), Heartbeat(run))
    except OSError as error:
        log.warning("the heartbeat of run %s, which migrates %s, could not be written: %s", run, view, error)


def last_heartbeat(settings: Settings, view: str, run: str) -> float | None:
    """Return the time of the last heartbeat of ``run`` (seconds since 1970); None if there is none."""
    path = _file(settings, view)
    try:
        moment, found = storage_of(path).modified(path), HEARTBEAT.read(path)
    except FileNotFoundError:
        return None
    return moment if found is not None and found.run == run else None


def _file(settings: Settings, view: str) -> Path:
    return settings.home / "control" / "migrations" / f"{safe_name(view, 'view')}.json"
