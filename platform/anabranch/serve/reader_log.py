"""Log of reads that migrations watch: failed reads, and reads at an older cut than their reader had seen.

Each process writes at most one small file per second, version and kind; the file has the number of reads since the one
before. Not guaranteed: a process that can't write to the platform's folder logs nothing.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

from anabranch.core.control_file import ControlFile
from anabranch.core.storage import listed, storage_of
from anabranch.lake.layout import VersionRef

Kind = Literal["failed_reads", "behind_reads"]
_SECONDS = 1.0
_KEPT = 1_000
"""How many files are kept per version and kind; the oldest are deleted."""
_written: dict[Path, float] = {}
_unwritten: dict[Path, int] = {}


@dataclass(frozen=True, slots=True)
class LoggedRead:
    """``count`` reads of one process; ``reader`` and ``engine`` are those of the newest. ``code``: the error's code,
    or, for a read behind, the cut that the reader got. ``route``: the number of the route that chose the version; 0 in
    entries from before routes were numbered, which so count as older than every route."""

    reader: str
    code: str
    engine: str = ""
    route: int = 0
    count: int = 1


LOGGED: Final = ControlFile("record of reads", LoggedRead)


def record_failed(ref: VersionRef, reader: str, code: str, *, engine: str, route: int) -> None:
    """Record that a read of this version failed without the reader's fault. Never raises, so the read's error stays."""
    _record(ref, "failed_reads", LoggedRead(reader, code, engine, route))


def record_behind(ref: VersionRef, reader: str, cut: str, *, route: int) -> None:
    """Record that a read gave ``reader`` an older cut than it had seen, which only a rollback may do."""
    _record(ref, "behind_reads", LoggedRead(reader, cut, "", route))


def failed_reads(ref: VersionRef, since: int = 0) -> list[LoggedRead]:
    """Return the failed reads that route number ``since`` or a newer one sent to this version, oldest first."""
    return _logged(ref, "failed_reads", since)


def behind_reads(ref: VersionRef, since: int = 0) -> list[LoggedRead]:
    """As ``failed_reads``, for reads at an older cut than their reader had seen."""
    return _logged(ref, "behind_reads", since)


def _record(ref: VersionRef, kind: Kind, read: LoggedRead) -> None:
    folder, now = _folder(ref, kind), time.monotonic()
    _unwritten[folder] = _unwritten.get(folder, 0) + 1
    if now - _written.get(folder, -_SECONDS) < _SECONDS:
        return
    _written[folder] = now
    counted = replace(read, count=_unwritten.pop(folder))
    with contextlib.suppress(OSError):
        LOGGED.write(folder / f"{time.time() * 1000:016.0f}-{os.getpid()}", counted)
        for old in listed(folder, "[0-9]*")[:-_KEPT]:
            storage_of(old).remove(old)


def _logged(ref: VersionRef, kind: Kind, since: int) -> list[LoggedRead]:
    found = map(LOGGED.read, listed(_folder(ref, kind), "[0-9]*"))  # None: an old one that was just deleted
    return [read for read in found if read is not None and read.route >= since]


def _folder(ref: VersionRef, kind: Kind) -> Path:
    return ref.settings.home / "control" / kind / ref.name / f"v{ref.version}"
