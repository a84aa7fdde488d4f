"""What reads leave behind for migrations: those that failed, and those at an older cut than their reader had seen.

A small file for each, of each process, version and kind at most one a second: it says how many there were since the one
before. Where a reader's process may not write, nothing is kept.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from anabranch.core.atomic_files import write_atomically
from anabranch.core.settings import Settings
from anabranch.lake.layout import safe_name

Kind = Literal["failed_reads", "behind_reads"]
_SECONDS = 1.0
_KEPT = 1_000
"""Files of one version and kind; the oldest go first."""
_written: dict[Path, float] = {}
_unwritten: dict[Path, int] = {}


@dataclass(frozen=True, slots=True)
class LoggedRead:
    """``count`` reads of one process, the newest of them by ``reader`` in ``engine``. ``code`` is the error's, or the
    cut that the reader got where it had seen a newer one. ``route``: the number of the route that led there."""

    reader: str
    code: str
    engine: str
    route: int
    count: int = 1


def record_failed(
    settings: Settings, view: str, version: int, reader: str, code: str, *, engine: str, route: int
) -> None:
    """Note that a read of this version failed though its reader did nothing wrong; never in the way of the error."""
    _record(settings, "failed_reads", view, version, LoggedRead(reader, code, engine, route))


def record_behind(settings: Settings, view: str, version: int, reader: str, cut: str, *, route: int) -> None:
    """Note that a read gave ``reader`` an older cut than it had seen, as only a rollback may."""
    _record(settings, "behind_reads", view, version, LoggedRead(reader, cut, "", route))


def failed_reads(settings: Settings, view: str, version: int, since: int = 0) -> list[LoggedRead]:
    """Failures of reads that route number ``since`` or a newer one led to this version, oldest first."""
    return _logged(settings, "failed_reads", view, version, since)


def behind_reads(settings: Settings, view: str, version: int, since: int = 0) -> list[LoggedRead]:
    """As ``failed_reads``: reads at an older cut than their reader had seen."""
    return _logged(settings, "behind_reads", view, version, since)


def _record(settings: Settings, kind: Kind, view: str, version: int, read: LoggedRead) -> None:
    folder, now = _folder(settings, kind, view, version), time.monotonic()
    _unwritten[folder] = _unwritten.get(folder, 0) + 1
    if now - _written.get(folder, -_SECONDS) < _SECONDS:
        return
    _written[folder] = now
    content = {"reader": read.reader, "code": read.code, "engine": read.engine, "route": read.route}
    content["count"] = _unwritten.pop(folder)
    with contextlib.suppress(OSError):
        write_atomically(folder / f"{time.time() * 1000:016.0f}-{os.getpid()}", json.dumps(content))
        for old in sorted(folder.glob("[0-9]*"))[:-_KEPT]:
            old.unlink(missing_ok=True)


def _logged(settings: Settings, kind: Kind, view: str, version: int, since: int) -> list[LoggedRead]:
    found = [json.loads(file.read_text()) for file in sorted(_folder(settings, kind, view, version).glob("[0-9]*"))]
    # What an older version of this code wrote has no route: it is of before every one.
    reads = [
        LoggedRead(each["reader"], each["code"], each.get("engine", ""), each.get("route", 0), each.get("count", 1))
        for each in found
    ]
    return [read for read in reads if read.route >= since]


def _folder(settings: Settings, kind: Kind, view: str, version: int) -> Path:
    return settings.home / "control" / kind / safe_name(view, "view") / f"v{version}"
