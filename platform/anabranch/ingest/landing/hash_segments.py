"""Files of sorted 128-bit hashes: written once, searched where they are on disk, merged, never changed.

A file is a NumPy array of shape (2, n): the upper 64 bits of each hash, ascending, and below them the lower ones. It is
mapped, not loaded: a search reads a few pages of it, which are the system's to keep or to drop.
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
"""Hashes that a merge holds in memory at once, about (hashes are spread evenly)."""


@dataclass(frozen=True, slots=True)
class Segment:
    """``day`` is the day (UTC) on which its records were appended to the log; None is kept for ever."""

    path: Path
    day: date | None
    hashes: Hashes

    @property
    def count(self) -> int:
        return int(self.hashes.shape[1])


def write(path: Path, day: date | None, hashes: Hashes) -> Segment:
    """A new file of ``hashes``, in any order; it is on the disk when this returns."""
    with path.open("wb") as file:
        np.save(file, hashes[:, np.argsort(hashes[0])])
        file.flush()
        os.fsync(file.fileno())
    return load(path, day)


def load(path: Path, day: date | None) -> Segment:
    """The file at ``path``, mapped. OSError or ValueError when it is gone or cut short."""
    return Segment(path, day, np.load(path, mmap_mode="r"))


def contains(segment: Segment, wanted: Hashes) -> NDArray[np.bool_]:
    """Which of ``wanted`` are in the segment. Fastest when they are sorted by their upper halves."""
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
    """One new file of all that ``segments`` (of one day) hold; they stay as they are. Memory is bounded by CHUNK."""
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
