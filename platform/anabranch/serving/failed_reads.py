"""Reads that failed though the reader did nothing wrong: what a migration must not cause.

A small file for each, of each process and version at most one a second; where a reader's process may not write, nothing
is kept.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from anabranch.errors import AnabranchError
from anabranch.files import write_whole
from anabranch.settings import Settings
from anabranch.tables.layout import safe_name

_SECONDS = 1.0
_told: dict[Path, float] = {}
_KEPT = 1_000
"""Files of one version; the oldest go first."""


@dataclass(frozen=True, slots=True)
class FailedRead:
    """One of the reads that failed, and why."""

    at: datetime
    reader: str
    code: str


def keep(settings: Settings, view: str, version: int, reader: str, error: AnabranchError) -> None:
    """Write down that a read of this version failed for ``reader``; never in the way of the error itself."""
    folder, now = _folder(settings, view, version), time.time()
    if now - _told.get(folder, 0.0) < _SECONDS:
        return
    _told[folder] = now
    with contextlib.suppress(OSError):
        write_whole(folder / f"{now * 1000:016.0f}-{os.getpid()}", json.dumps({"reader": reader, "code": error.code}))
        for old in sorted(folder.glob("[0-9]*"))[:-_KEPT]:
            old.unlink(missing_ok=True)


def failed_reads(settings: Settings, view: str, version: int, since: datetime) -> list[FailedRead]:
    """Failures since then, oldest first; of each process at most one a second."""
    found = []
    for file in sorted(_folder(settings, view, version).glob("[0-9]*")):
        at = datetime.fromtimestamp(int(file.name.split("-")[0]) / 1000, UTC)
        if at >= since:
            said = json.loads(file.read_text())
            found.append(FailedRead(at, said["reader"], said["code"]))
    return found


def _folder(settings: Settings, view: str, version: int) -> Path:
    return settings.home / "control" / "failed_reads" / safe_name(view, "view") / f"v{version}"
