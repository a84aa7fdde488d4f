"""Makes fewer and larger epochs while an Airflow run rebuilds days, because a person waits for the run (ADR 0030)."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from anabranch.core.atomic_files import locked
from anabranch.core.settings import Settings

_LOOK: Final = 0.1
"""Seconds between two checks."""
_BETWEEN: Final = 5.0
"""Seconds between two steps of a run: for that long after a step the run counts as not yet over."""

_LOCK_SECONDS: Final = 20.0
"""Landing has the lock for the instant of a question."""


@contextmanager
def run_first(settings: Settings) -> Iterator[None]:
    """Within the block, and for a moment after it, landing leaves the cores to the caller. A kill ends it too."""
    path = _lock(settings)
    with locked(path, shared=True, wait=_LOCK_SECONDS):
        try:
            yield
        finally:
            os.utime(path)


def run_under_way(settings: Settings) -> bool:
    """Whether a process is in ``run_first``, or was a moment ago."""
    path = _lock(settings)
    if not path.exists():
        return False
    try:
        with locked(path):
            return abs(time.time() - path.stat().st_mtime) < _BETWEEN
    except BlockingIOError:
        return True


def pace_epoch(settings: Settings, begun: float) -> None:
    """While a run is under way, wait until the epoch that was begun at ``begun`` (monotonic clock) has lasted long
    enough. Its records are already committed; records that arrive meanwhile belong to the next epoch."""
    until = begun + settings.landing_seconds_beside_runs
    with suppress(OSError):  # the lock can't be read: don't wait
        while time.monotonic() < until and run_under_way(settings):
            time.sleep(_LOOK)


def _lock(settings: Settings) -> Path:
    return settings.locks / "run-first"
