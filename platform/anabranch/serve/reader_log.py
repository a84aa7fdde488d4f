"""Log of reads that migrations watch: failed reads, and reads at an older cut than their reader had seen.

Each process has one small file per version, kind, route, engine and error code, which holds how many reads it counts.
The first read of a file is written at once, and later ones within a second, also when no other read follows. A process
that is killed may lack those of its last second. Order is by the numbers of routes, not by a clock. Not guaranteed: a
process that can't write to the platform's folder logs nothing.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import re
import time
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from threading import Lock, Timer
from typing import Final, Literal
from uuid import uuid4

from anabranch.core.control_file import ControlFile
from anabranch.core.storage import listed, storage_of
from anabranch.lake.layout import VersionRef

log = logging.getLogger(__name__)
Kind = Literal["failed_reads", "behind_reads"]
_SECONDS = 1.0
_PRUNE_SECONDS = 60.0
_END_SECONDS = 5.0
"""How long the end of a process waits for each file that another thread of it writes."""
_KEPT = 1_000
"""How many files are kept per version and kind. Those of the oldest routes are deleted: if one of a route is, each that
is left is of this route or a newer one."""
_MAX_TALLIES = 1_000
_NAME: Final = re.compile(r"(\d{10})-[0-9a-f]{40}")
"""Number of the route, a number of the process, and a unique text. Older versions named files by milliseconds and
process id."""
_numbers = count(1)


@dataclass(frozen=True, slots=True)
class LoggedRead:
    """``count`` reads of one process; ``reader`` is that of the newest, and so is ``code`` of reads behind. ``code``:
    the error's code, or, for a read behind, the cut that the reader got. ``route``: the number of the route that chose
    the version; 0 in entries from before routes were numbered, which so count as older than every route."""

    reader: str
    code: str
    engine: str = ""
    route: int = 0
    count: int = 1


LOGGED: Final = ControlFile("record of reads", LoggedRead)


@dataclass(slots=True)
class _Tally:
    """What this process counts in one file."""

    file: Path
    read: LoggedRead
    unwritten: bool = True
    written_at: float | None = None
    pruned_at: float | None = None
    timer: Timer | None = None
    writing: Lock = field(default_factory=Lock)
    """Held while the file is written. ``_lock``, which guards the other fields, never is: a slow disk would make the
    reads of all threads wait."""


_Key = tuple[Path, int, str, str]
_tallies: OrderedDict[_Key, _Tally] = OrderedDict()
_lock = Lock()


def record_failed(ref: VersionRef, reader: str, code: str, *, engine: str, route: int) -> None:
    """Record that a read of this version failed without the reader's fault. Never raises, so the read's error stays."""
    _record(ref, "failed_reads", LoggedRead(reader, code, engine, route))


def record_behind(ref: VersionRef, reader: str, cut: str, *, route: int) -> None:
    """Record that a read gave ``reader`` an older cut than it had seen, which only a rollback may do."""
    _record(ref, "behind_reads", LoggedRead(reader, cut, "", route))


def failed_reads(ref: VersionRef, since: int = 0) -> list[LoggedRead]:
    """Return the failed reads that route number ``since`` or a newer one sent to this version, by their routes."""
    return _logged(ref, "failed_reads", since)


def behind_reads(ref: VersionRef, since: int = 0) -> list[LoggedRead]:
    """As ``failed_reads``, for reads at an older cut than their reader had seen."""
    return _logged(ref, "behind_reads", since)


def _record(ref: VersionRef, kind: Kind, read: LoggedRead) -> None:
    folder = _folder(ref, kind)
    key = folder, read.route, read.engine, read.code if kind == "failed_reads" else ""
    with _lock:
        tally = _tallies.get(key)
        if tally is None:
            tally = _tallies[key] = _Tally(folder / f"{read.route:010d}-{next(_numbers):08x}{uuid4().hex}", read)
        else:
            tally.read = replace(read, count=tally.read.count + 1)
            tally.unwritten = True
            _tallies.move_to_end(key)
        wait = 0.0 if tally.written_at is None else max(tally.written_at + _SECONDS - time.monotonic(), 0.0)
        is_ours = wait == 0 and tally.writing.acquire(blocking=False)
        if not is_ours and tally.timer is None:
            _write_later(tally, wait)
        dropped = [_tallies.popitem(last=False)[1] for _ in range(len(_tallies) - _MAX_TALLIES)]
    if is_ours:
        try:
            _write(tally)
        finally:
            tally.writing.release()
    for old in dropped:  # one that comes again has a new file
        with old.writing:
            _write(old)


def _write_later(tally: _Tally, seconds: float) -> None:
    timer = Timer(seconds, _write_due, [tally])
    timer.daemon = True
    with contextlib.suppress(RuntimeError):  # no thread left, or the process ends: ``_end`` or the next read writes
        timer.start()
        tally.timer = timer


def _write_due(tally: _Tally) -> None:
    with tally.writing:
        with _lock:
            tally.timer = None
        _write(tally)


@atexit.register
def _end() -> None:
    with _lock:
        left = list(_tallies.values())
    for tally in left:
        if tally.writing.acquire(timeout=_END_SECONDS):
            try:
                _write(tally)
            finally:
                tally.writing.release()


def _write(tally: _Tally) -> None:
    """Write the tally, unless the file has it, and delete old files. After an error the next read of the tally tries
    again. The caller holds ``tally.writing``."""
    now = time.monotonic()
    with _lock:
        if not tally.unwritten:
            return
        read, tally.unwritten, tally.written_at = tally.read, False, now
    try:
        LOGGED.write(tally.file, read)
    except BaseException as error:
        with _lock:
            tally.unwritten = True
        if not isinstance(error, Exception):
            raise
        log.debug("%s: a read can't be recorded: %s", tally.file, error)  # it would take the place of the read's own
        return
    if tally.pruned_at is None or now - tally.pruned_at >= _PRUNE_SECONDS:
        tally.pruned_at = now
        try:
            _prune(tally.file)
        except Exception as error:
            log.debug("%s: old records of reads can't be deleted: %s", tally.file.parent, error)


def _prune(own: Path) -> None:
    found = [file for file in listed(own.parent, "[0-9]*") if file != own]
    if len(found) < _KEPT:
        return
    for old in sorted(found, key=lambda file: (_route_of(file), file.name))[: len(found) + 1 - _KEPT]:
        storage_of(old).remove(old)


def _route_of(file: Path) -> int:
    if match := _NAME.fullmatch(file.name):
        return int(match[1])
    try:
        read = LOGGED.read(file)
    except ValueError:
        return 0
    return 0 if read is None else read.route


def _logged(ref: VersionRef, kind: Kind, since: int) -> list[LoggedRead]:
    found = map(LOGGED.read, listed(_folder(ref, kind), "[0-9]*"))  # None: an old one that was just deleted
    return sorted((read for read in found if read is not None and read.route >= since), key=lambda read: read.route)


def _folder(ref: VersionRef, kind: Kind) -> Path:
    return ref.settings.home / "control" / kind / ref.name / f"v{ref.version}"


def _begin() -> None:
    """A forked process counts its own reads, in files of its own."""
    global _lock
    _lock = Lock()
    _tallies.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin)
