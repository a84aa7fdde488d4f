"""Size and last write of files and folders that others change meanwhile. What disappears is skipped."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from anabranch.core.storage import storage_of


def size(path: Path) -> int:
    """The bytes of a file, or of all files below a folder."""
    storage = storage_of(path)
    with suppress(FileNotFoundError):
        return sum(entry.size for entry in storage.entries(path)) if storage.holds(path) else storage.size(path)
    return 0


def touched(path: Path) -> float:
    """The time of the last write of a file, or in a folder (seconds since 1970); 0 if it doesn't exist."""
    storage = storage_of(path)
    times = [entry.written for entry in storage.entries(path)]
    with suppress(FileNotFoundError):
        times.append(storage.modified(path))  # on a disk a folder without files has a time, too
    return max(times, default=0.0)
