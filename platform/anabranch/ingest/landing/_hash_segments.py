"""Files of sorted 128-bit hashes: written once, searched on disk, merged, never changed.

A file is a NumPy array of shape (2, n): the upper 64 bits of each hash, ascending, and below them the lower 64. It is
memory-mapped, not loaded: a search reads a few pages, which stay in the page cache as long as the system keeps them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]
"""Shape (2, n): upper and lower halves."""
CHUNK = 1_000_000
"""The approximate number of hashes that a merge holds in memory (hashes are evenly distributed)."""


@dataclass(frozen=True, slots=True)
class Segment:
    """``day``: the day (UTC) on which the records were appended to the log; None: kept for ever."""

    path: Path
    day: date | None
    hashes: Hashes

    @property
    def count(self) -> int:
        return int(self.hashes.shape[1])


def write(path: Path, day: date | None, hashes: Hashes) -> Segment:
    """Write ``hashes``, in any order, to a new file; it is synced to disk on return."""
    with path.open("wb") as file:
        np.save(file, hashes[:, np.argsort(hashes[0])])
        file.flush()
        os.fsync(file.fileno())
    return load(path, day)


def load(path: Path, day: date | None) -> Segment:
    """Map the file at ``path``. Raises OSError or ValueError if it is missing or truncated."""
    return Segment(path, day, np.load(path, mmap_mode="r"))


def contains(segment: Segment, wanted: Hashes) -> NDArray[np.bool_]:
    """Which of ``wanted`` are in the segment. Fastest if they are sorted by their upper halves."""
    upper, lower = segment.hashes
    found = np.zeros(wanted.shape[1], np.bool_)
    at = np.searchsorted(upper, wanted[0])
    left = np.arange(wanted.shape[1])
    while len(left):
        left = left[at[left] < segment.count]
        left = left[upper[at[left]] == wanted[0][left]]
        found[left] |= lower[at[left]] == wanted[1][left]
        left = left[~found[left]]
        at[left] += 1  # two hashes may share their upper half
    return found


def merge(segments: Sequence[Segment], path: Path) -> Segment:
    """Merge ``segments`` (of one day) into a new file; they stay unchanged. Memory is bounded by CHUNK."""
    total = sum(segment.count for segment in segments)
    merged = np.lib.format.open_memmap(path, mode="w+", dtype=np.uint64, shape=(2, total))
    parts = max(1, total // CHUNK)
    bounds = np.array([(part << 64) // parts for part in range(1, parts)], np.uint64)
    cuts = [[0, *np.searchsorted(s.hashes[0], bounds).tolist(), s.count] for s in segments]
    done = 0
    for part in range(parts):
        pieces = [s.hashes[:, cut[part] : cut[part + 1]] for s, cut in zip(segments, cuts, strict=True)]
        piece = np.concatenate(pieces, axis=1)
        merged[:, done : done + piece.shape[1]] = piece[:, np.argsort(piece[0])]
        done += piece.shape[1]
    merged.flush()
    return load(path, segments[0].day)
