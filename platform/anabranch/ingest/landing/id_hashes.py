"""What makes two records one event: the MD5 of (source, id), 128 bits, computed for whole columns at once."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from hashlib import md5

import duckdb
import numpy as np
import pyarrow as pa
from anabranch.ingest.landing.hash_segments import CHUNK, Hashes
from numpy.typing import NDArray

# The length first: no two pairs become one text.
_HASHED = """(SELECT *, (h >> 64)::ubigint AS upper, (h & 18446744073709551615::uhugeint)::ubigint AS lower
    FROM (SELECT *, md5_number(strlen(source)::varchar || ':' || source || event_id) AS h FROM rows))"""
FEW = 5_000
"""To open DuckDB takes longer than to hash so many here."""
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
    """Hashes of those ``rows`` that satisfy ``condition`` (SQL), by day of append time; released ones have no day.

    A day comes as often as is needed to hold no more than CHUNK hashes in memory.
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
    """The places of hashes of which there may be another: mostly none, which takes one sort to see."""
    order = np.argsort(found[0])
    same = found[0][order[1:]] == found[0][order[:-1]]
    return np.unique(np.concatenate([order[1:][same], order[:-1][same]]))


def days_of(rows: pa.Table) -> NDArray[np.int64]:
    """The day (UTC) of each row's append_time, counted from 1970."""
    micros: NDArray[np.int64] = rows["append_time"].cast(pa.int64()).to_numpy()
    return micros // 86_400_000_000


def split(found: Hashes, days: NDArray[np.int64]) -> Iterator[tuple[date | None, Hashes]]:
    """``found`` by ``days``, one of which is given for each hash; below zero is none."""
    for day in np.unique(days).tolist():
        yield _date(day), found[:, days == day]


def _date(day: int) -> date | None:
    return None if day < 0 else date.fromordinal(date(1970, 1, 1).toordinal() + day)
