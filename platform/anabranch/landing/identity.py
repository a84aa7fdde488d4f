"""What makes two records one event: 128 bits of a hash of (source, id), computed for whole columns at once."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.landing.segments import CHUNK, Hashes

HASH = """(SELECT *, (h >> 64)::ubigint AS upper, (h & 18446744073709551615::uhugeint)::ubigint AS lower
    FROM (SELECT *, md5_number(strlen(source)::varchar || ':' || source || event_id) AS h FROM {rows}))"""
"""SQL: ``rows`` (with source and event_id), and the two halves. The length first: no two pairs become one text."""
_DAY = "CASE WHEN released_from IS NULL THEN epoch_us(append_time) // 86_400_000_000 END"
_DAYS = f"SELECT upper, lower, coalesce({_DAY}, -1) AS day FROM {HASH.format(rows='rows')} WHERE "  # noqa: S608


def hashes(rows: pa.Table) -> Hashes:
    """The hash of each row's (source, event_id); neither may be null."""
    with duckdb.connect() as connection:
        connection.register("rows", rows.select(["source", "event_id"]))
        found = connection.sql(f"SELECT upper, lower FROM {HASH.format(rows='rows')}").fetchnumpy()  # noqa: S608
    return np.stack([found["upper"], found["lower"]])


def form() -> str:
    """Names this way of hashing: an index that was made in another way would find nothing."""
    (probe,) = hashes(pa.table({"source": ["a"], "event_id": ["b"]})).T.tolist()
    return f"1:{probe[0]:x}{probe[1]:x}"


def by_day(rows: duckdb.DuckDBPyConnection, condition: str) -> Iterator[tuple[date | None, Hashes]]:
    """Hashes of those ``rows`` that satisfy ``condition`` (SQL), by day of append time; released ones have no day.

    A day comes as often as is needed to hold no more than CHUNK hashes in memory.
    """
    for batch in rows.sql(_DAYS + condition).to_arrow_reader(CHUNK):
        upper, lower, days = (batch.column(name).to_numpy() for name in ("upper", "lower", "day"))
        yield from split(np.stack([upper, lower]), days)


def copies(rows: pa.Table, found: Hashes) -> NDArray[np.bool_]:
    """Which of ``rows`` (append_time, partition, offset) repeat an earlier one of them, by their hashes."""
    keys = [rows[name].to_numpy() for name in ("offset", "partition", "append_time")]
    order = np.lexsort((*keys, found[1], found[0]))
    ordered = found[:, order]
    repeated = np.zeros(rows.num_rows, np.bool_)
    repeated[order[1:]] = (ordered[:, 1:] == ordered[:, :-1]).all(axis=0)
    return repeated


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
