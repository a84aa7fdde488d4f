"""Who reads a certain version by its number: nobody may take that version away from them unasked.

A file for each view, version and name, touched at most once a minute by each process: its time is that of the last
such read. Where a reader's process may not write to the platform's folder, nothing is kept: it isn't seen here.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from anabranch.core.atomic_files import write_atomically
from anabranch.core.settings import Settings
from anabranch.lake.layout import safe_name

_SECONDS = 60.0
_told: dict[Path, float] = {}
_MOST = 10_000


@dataclass(frozen=True, slots=True)
class NamedReader:
    """A reader who names the version, and when it last did."""

    name: str
    last: datetime


def record_reader(settings: Settings, view: str, version: int, reader: str) -> None:
    """Write down that ``reader`` has named this version just now."""
    file = _folder(settings, view, version) / hashlib.sha256(reader.encode()).hexdigest()[:32]
    now = time.monotonic()
    if now - _told.get(file, -_SECONDS) < _SECONDS:
        return
    if len(_told) >= _MOST:
        _told.clear()
    _told[file] = now
    with contextlib.suppress(OSError):
        if file.exists():
            os.utime(file)
        else:
            write_atomically(file, reader)


def named_readers(settings: Settings, view: str, version: int, since: datetime) -> list[NamedReader]:
    """The readers who have named this version since then, the newest first."""
    found = [each for each in _all(_folder(settings, view, version)) if each.last >= since]
    return sorted(found, key=lambda each: each.last, reverse=True)


def _all(folder: Path) -> Iterator[NamedReader]:
    for file in folder.glob("[0-9a-f]*"):
        yield NamedReader(file.read_text(errors="replace"), datetime.fromtimestamp(file.stat().st_mtime, UTC))


def _folder(settings: Settings, view: str, version: int) -> Path:
    return settings.home / "control" / "named_readers" / safe_name(view, "view") / f"v{version}"
