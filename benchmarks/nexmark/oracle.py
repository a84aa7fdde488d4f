"""An independent answer to every query: DuckDB over the producer's own bytes, no Spark.

It is told what was sent, where in the log that landed, and at which offsets each epoch ended. Which events are late it
works out for itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

import duckdb
import pyarrow as pa
from anabranch_samples.oracle import Agreement

from benchmarks.nexmark.oracle_queries import ANSWERS

Epoch = tuple[int, int, int]
"""An epoch, a partition, and the first offset of it that the epoch doesn't hold any more."""

_ENVELOPE: Final = """
create table sent as
select records.partition as p, records.offset as o, epochs.epoch, decode(value)::json as e
from records asof left join epochs on records.partition = epochs.p and records.offset < epochs.until;
create table timed as
select p, o, epoch, e->>'$.type' as type, e->>'$.id' as event_id, (e->>'$.time')::timestamptz as date_time,
    e->'$.data' as d from sent;
create table marks as
select epoch, max(max(date_time)) over (order by epoch rows between unbounded preceding and 1 preceding) as newest
from timed group by epoch;
create table judged as
select timed.*, coalesce(date_time < newest - to_seconds($lateness), false) as late
from timed left join marks using (epoch);
"""
_KINDS: Final = {
    "person": "id bigint, name text, email_address text, credit_card text, city text, state text, extra text",
    "auction": "id bigint, item_name text, description text, initial_bid bigint, reserve bigint, "
    "expires timestamptz, seller bigint, category bigint, extra text",
    "bid": "auction bigint, bidder bigint, price bigint, channel text, url text, extra text",
}


class Oracle:
    """``records`` have partition, offset and value. Raises ValueError where an epoch or an id is missing or twice."""

    def __init__(self, records: pa.Table, epochs: Iterable[Epoch], lateness: timedelta) -> None:
        self._db = duckdb.connect()
        self._db.execute("set timezone = 'UTC'")
        self._db.execute("create table epochs (epoch bigint, p int, until bigint)")
        self._db.executemany("insert into epochs values (?, ?, ?)", [list(row) for row in epochs])
        self._db.register("records", records)
        for statement in filter(str.strip, _ENVELOPE.split(";")):
            self._db.execute(statement, {"lateness": lateness.total_seconds()} if "$lateness" in statement else {})
        self._db.unregister("records")
        found = self._one("select count(*), count(distinct event_id), count(epoch) from judged")
        if len(set(found)) != 1:
            raise ValueError(f"{found[0]} records, {found[1]} ids, {found[2]} with an epoch: that is no one log")
        for kind, columns in _KINDS.items():
            self._db.execute(f"create table all_{kind}s as {_typed(kind, columns)}")

    @property
    def events(self) -> int:
        return int(self._one("select count(*) from judged")[0])

    @property
    def late(self) -> int:
        return int(self._one("select count(*) from judged where late")[0])

    def count(self, event_types: Sequence[str]) -> tuple[int, int]:
        """How many events there are of these types, and how many of them are late."""
        found = self._one("select count(*), count(*) filter (late) from judged where type in $types", event_types)
        return int(found[0]), int(found[1])

    def ask(self, sql: str, *, late: bool) -> pa.Table:
        """What DuckDB says over all events, or over those on time."""
        self._choose(late)
        return self._db.sql(sql).to_arrow_table()

    def compare(self, query: str, rows: pa.Table, *, late: bool) -> Agreement:
        """Hold all ``rows`` of a view against the answer, as bags."""
        self._choose(late)
        self._db.register("served", rows)
        columns = ", ".join(f'"{name}"' for name in rows.column_names)
        ours, expected = f"select {columns} from served", f"select {columns} from ({ANSWERS[query]})"  # noqa: S608
        # Computed once: each side of the comparison would run the query again.
        self._db.execute(f"create or replace temp table expected as {expected}")
        expected = f"select {columns} from expected"  # noqa: S608
        agreement = Agreement(rows.num_rows, self._without(ours, expected), self._without(expected, ours))
        self._db.unregister("served")
        return agreement

    def _choose(self, late: bool) -> None:
        for kind in _KINDS:
            chosen = f"select * exclude late from all_{kind}s {'' if late else 'where not late'}"  # noqa: S608
            self._db.execute(f"create or replace temp view {kind} as {chosen}")

    def _without(self, left: str, right: str) -> tuple[Mapping[str, Any], ...]:
        found = self._db.execute(f"({left}) except all ({right}) limit 20")
        names = [column[0] for column in found.description or ()]
        return tuple(dict(zip(names, row, strict=True)) for row in found.fetchall())

    def _one(self, query: str, types: Sequence[str] = ()) -> tuple[Any, ...]:
        found = self._db.execute(query, {"types": list(types)} if types else {}).fetchone()
        assert found is not None
        return found


def _typed(kind: str, columns: str) -> str:
    fields = [column.split() for column in columns.split(", ")]
    structure = ", ".join(f'"{name}": "{"varchar" if type_ == "text" else type_}"' for name, type_ in fields)
    return (
        f"select date_time, event_id, p, o, late, unnest(from_json(d, '{{{structure}}}')) "  # noqa: S608
        f"from judged where type = 'nexmark.{kind}'"
    )
