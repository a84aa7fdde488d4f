"""Landing makes fewer, larger epochs while a run rebuilds days: it is beside a person who waits (ADR 0030)."""

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
"""Seconds."""
_BETWEEN: Final = 5.0
"""Seconds from one step of a run to the next: for so long a run isn't over."""


@contextmanager
def run_first(settings: Settings) -> Iterator[None]:
    """While this lasts, and a moment longer, landing leaves the cores to whoever is in here. A kill ends it, too."""
    path = _lock(settings)
    with locked(path, shared=True, wait=True):
        try:
            yield
        finally:
            os.utime(path)


def run_under_way(settings: Settings) -> bool:
    """Whether anybody is in ``run_first``, or was a moment ago."""
    path = _lock(settings)
    if not path.exists():
        return False
    try:
        with locked(path):
            return abs(time.time() - path.stat().st_mtime) < _BETWEEN
    except BlockingIOError:
        return True


def rest(settings: Settings, begun: float) -> None:
    """Wait, while a run is under way, until an epoch that was ``begun`` then (of the monotonic clock) has lasted long
    enough. What it holds is committed by now; records that come meanwhile are the next epoch's."""
    until = begun + settings.landing_seconds_beside_runs
    with suppress(OSError):  # nobody can say that there is a run
        while time.monotonic() < until and run_under_way(settings):
            time.sleep(_LOOK)


def _lock(settings: Settings) -> Path:
    return settings.locks / "run-first"
