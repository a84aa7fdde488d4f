"""Hashes the identity of events: the MD5 of (source, id), 128 bits, computed for whole columns at once."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from hashlib import md5

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.ingest.landing._hash_segments import CHUNK, Hashes

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
