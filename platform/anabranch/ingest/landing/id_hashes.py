"""Hashes the identity of events, and keeps the hashes in files.

A hash is the MD5 of (source, id), 128 bits, computed for whole columns at once. A file of sorted hashes (``Segment``)
is written once, searched on disk, merged, and never changed: a NumPy array of shape (2, n), the upper 64 bits of each
hash, ascending, and below them the lower 64. It is memory-mapped, not loaded: a search reads a few pages, which stay in
the page cache as long as the system keeps them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from hashlib import md5
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]
"""Shape (2, n): upper and lower halves."""
CHUNK = 1_000_000
"""The approximate number of hashes that a merge holds in memory (hashes are evenly distributed)."""
# The length comes first, so that no two pairs become the same text.
_HASHED = """(SELECT *, (h >> 64)::ubigint AS upper, (h & 18446744073709551615::uhugeint)::ubigint AS lower
    FROM (SELECT *, md5_number(strlen(source)::varchar || ':' || source || event_id) AS h FROM rows))"""
FEW = 5_000
"""Up to this many rows, hashing in Python is faster than opening DuckDB."""
_HASHES = f"SELECT upper, lower FROM {_HASHED}"  # noqa: S608
_DAY = "CASE WHEN released_from IS NULL THEN epoch_us(append_time) // 86_400_000_000 END"
_DAYS = f"SELECT upper, lower, coalesce({_DAY}, -1) AS day FROM {_HASHED} WHERE "  # noqa: S608


def hashes(rows: pa.Table) -> Hashes:
    """The hash of each row's (source, event_id); neither may be null."""
    columns = rows.select(["source", "event_id"])
    if rows.num_rows <= FEW:
        pairs = zip(*(column.to_pylist() for column in columns.columns), strict=True)
        digests = b"".join(md5(f"{len(a.encode())}:{a}{b}".encode(), usedforsecurity=False).digest() for a, b in pairs)
        return np.frombuffer(digests, "<u8").reshape(-1, 2).T[::-1]
    with duckdb.connect() as connection:
        connection.register("rows", columns)
        found = connection.sql(_HASHES).fetchnumpy()
    return np.stack([found["upper"], found["lower"]])


def by_day(rows: duckdb.DuckDBPyConnection, condition: str) -> Iterator[tuple[date | None, Hashes]]:
    """Hashes of the ``rows`` that satisfy ``condition`` (SQL), by day of append time; released records have no day.

    A day may come several times, so that at most about CHUNK hashes are in memory.
    """
    for batch in rows.sql(_DAYS + condition).to_arrow_reader(CHUNK):
        upper, lower, days = (batch.column(name).to_numpy() for name in ("upper", "lower", "day"))
        yield from split(np.stack([upper, lower]), days)


def duplicates_within(rows: pa.Table, found: Hashes) -> NDArray[np.bool_]:
    """Which of ``rows`` (append_time, partition, offset) repeat an earlier one of them, by their hashes."""
    repeated = np.zeros(rows.num_rows, np.bool_)
    alike = _share_upper_half(found)
    some, few = rows.take(alike), found[:, alike]
    keys = [some[name].to_numpy() for name in ("offset", "partition", "append_time")]
    order = np.lexsort((*keys, few[1], few[0]))
    ordered = few[:, order]
    repeated[alike[order[1:]]] = (ordered[:, 1:] == ordered[:, :-1]).all(axis=0)
    return repeated


def _share_upper_half(found: Hashes) -> NDArray[np.intp]:
    """The positions of hashes whose upper half occurs more than once: usually none, which one sort finds out."""
    order = np.argsort(found[0])
    same = found[0][order[1:]] == found[0][order[:-1]]
    return np.unique(np.concatenate([order[1:][same], order[:-1][same]]))


def days_of(rows: pa.Table) -> NDArray[np.int64]:
    """The day (UTC) of each row's append_time, in days since 1970."""
    micros: NDArray[np.int64] = rows["append_time"].cast(pa.int64()).to_numpy()
    return micros // 86_400_000_000


def split(found: Hashes, days: NDArray[np.int64]) -> Iterator[tuple[date | None, Hashes]]:
    """Split ``found`` by ``days``, which has one entry per hash; a negative entry means no day."""
    for day in np.unique(days).tolist():
        yield _date(day), found[:, days == day]


def _date(day: int) -> date | None:
    return None if day < 0 else date.fromordinal(date(1970, 1, 1).toordinal() + day)


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
