"""Records of readers who read a version by its number. Such a version isn't retired while they use it.

One file per view, version and reader; each process writes it at most once a minute, and its time is that of the last
read. Not guaranteed: a reader whose process can't write to the platform's folder isn't recorded.
"""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from anabranch.core.storage import listed, storage_of
from anabranch.lake.layout import VersionRef

_SECONDS = 60.0
_last_written: dict[Path, float] = {}
_MAX_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class NamedReader:
    """A reader who reads a version by its number, and when it last did."""

    name: str
    last: datetime


def record_reader(ref: VersionRef, reader: str) -> None:
    """Record that ``reader`` has just read this version by its number."""
    file = _folder(ref) / hashlib.sha256(reader.encode()).hexdigest()[:32]
    now = time.monotonic()
    if now - _last_written.get(file, -_SECONDS) < _SECONDS:
        return
    if len(_last_written) >= _MAX_REMEMBERED:
        _last_written.clear()
    _last_written[file] = now
    with contextlib.suppress(OSError):
        storage_of(file).write(file, reader.encode())


def named_readers(ref: VersionRef, since: datetime) -> list[NamedReader]:
    """Return the readers who have read this version by its number since ``since``, newest first."""
    readers = [reader for reader in _all(_folder(ref)) if reader.last >= since]
    return sorted(readers, key=lambda reader: reader.last, reverse=True)


def _all(folder: Path) -> Iterator[NamedReader]:
    storage = storage_of(folder)
    for file in listed(folder, "[0-9a-f]*"):
        last = datetime.fromtimestamp(storage.modified(file), UTC)
        yield NamedReader(storage.read(file).decode(errors="replace"), last)


def _folder(ref: VersionRef) -> Path:
    return ref.settings.home / "control" / "named_readers" / ref.name / f"v{ref.version}"
