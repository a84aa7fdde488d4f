"""Log of reads that migrations watch: failed reads, and reads at an older cut than their reader had seen.

Each process writes at most one small file per second, version and kind; the file has the number of reads since the one
before. Not guaranteed: a process that can't write to the platform's folder logs nothing.
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
"""How many files are kept per version and kind; the oldest are deleted."""
_written: dict[Path, float] = {}
_unwritten: dict[Path, int] = {}


@dataclass(frozen=True, slots=True)
class LoggedRead:
    """``count`` reads of one process; ``reader`` and ``engine`` are those of the newest. ``code``: the error's code,
    or, for a read behind, the cut that the reader got. ``route``: the number of the route that chose the version."""

    reader: str
    code: str
    engine: str
    route: int
    count: int = 1


def record_failed(
    settings: Settings, view: str, version: int, reader: str, code: str, *, engine: str, route: int
) -> None:
    """Record that a read of this version failed without the reader's fault. Never raises, so the read's error stays."""
    _record(settings, "failed_reads", view, version, LoggedRead(reader, code, engine, route))


def record_behind(settings: Settings, view: str, version: int, reader: str, cut: str, *, route: int) -> None:
    """Record that a read gave ``reader`` an older cut than it had seen, which only a rollback may do."""
    _record(settings, "behind_reads", view, version, LoggedRead(reader, cut, "", route))


def failed_reads(settings: Settings, view: str, version: int, since: int = 0) -> list[LoggedRead]:
    """Return the failed reads that route number ``since`` or a newer one sent to this version, oldest first."""
    return _logged(settings, "failed_reads", view, version, since)


def behind_reads(settings: Settings, view: str, version: int, since: int = 0) -> list[LoggedRead]:
    """As ``failed_reads``, for reads at an older cut than their reader had seen."""
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
    entries = [json.loads(file.read_text()) for file in sorted(_folder(settings, kind, view, version).glob("[0-9]*"))]
    # Entries of an older version of this code have no route: they count as older than every route.
    reads = [
        LoggedRead(each["reader"], each["code"], each.get("engine", ""), each.get("route", 0), each.get("count", 1))
        for each in entries
    ]
    return [read for read in reads if read.route >= since]


def _folder(settings: Settings, kind: Kind, view: str, version: int) -> Path:
    return settings.home / "control" / kind / safe_name(view, "view") / f"v{version}"
