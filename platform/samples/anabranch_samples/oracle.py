"""Computes the expected rows of the three sample views independently: DuckDB over the producer's file, without Spark.

Its input is what the producer sent, with the partitions and offsets, and the offsets at which each epoch ended. It
computes everything else itself, in SQL: what is valid, duplicate or late, and the views' rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa

INVALID: Final = ("malformed", "broken_contract", "absurd_time")
"""The faults that must end in quarantine."""

_EVENTS = """
create table sent as
select topic, "partition" as p, "offset" as o, event_type, decode(value)::json as e
from read_parquet($file, hive_partitioning = false) where topic = $topic
    and (fault is null or fault not in ('malformed', 'broken_contract', 'absurd_time'));
create table timed as
select *, e->>'$.data' as d, e->>'$.source' as source, e->>'$.id' as id,
    case when e->>'$.senttime' is null then (e->>'$.time')::timestamptz
         else (e->>'$.time')::timestamptz + ((e->>'$.receivedtime')::timestamptz - (e->>'$.senttime')::timestamptz)
    end as event_time
from sent;
create table once as select * from timed qualify row_number() over (partition by source, id order by p, o) = 1;
create table landed as
select once.*, (select min(epoch) from epochs where epochs.p = once.p and once.o < epochs.until) as epoch from once;
create table marks as
select epoch, max(event_time) as newest from landed group by epoch;
create table judged as
select l.*, coalesce(
    l.event_time < (select max(newest) from marks m where m.epoch < l.epoch) - to_seconds($lateness), false) as late
from landed l;
"""
VIEWS: Final = {
    "departure_delays": """
        select d->>'$.origin' as origin, time_bucket(interval '1 hour', event_time) as window_start,
            window_start + interval '1 hour' as window_end, count(*) as flights,
            count(*) filter ((d->>'$.dep_delay')::bigint > 15) as delayed,
            sum((d->>'$.dep_delay')::bigint)::bigint as delay_minutes,
            (sign(delay_minutes) * ((2000 * abs(delay_minutes) + flights) // (2 * flights)))::bigint
                as average_thousandths
        from events where event_type = 'flight.departed' group by all""",
    "route_day": """
        select event_time::date as day, d->>'$.origin' as origin, d->>'$.dest' as dest, d->>'$.carrier' as carrier,
            count(*) filter (event_type = 'flight.scheduled') as scheduled,
            count(*) filter (event_type = 'flight.departed') as departed,
            count(*) filter (event_type = 'flight.cancelled') as cancelled,
            count(*) filter (event_type = 'flight.arrived') as arrived_late
        from events where event_type <> 'flight.arrived' or (d->>'$.arr_delay')::bigint > 15 group by all""",
    "aircraft_now": """
        select d->>'$.tailnum' as tailnum, (d->>'$.carrier') || (d->>'$.flight') as last_flight,
            case event_type when 'flight.departed' then d->>'$.origin' else d->>'$.dest' end as last_airport,
            event_type = 'flight.departed' as in_air, event_time as since
        from events where event_type in ('flight.departed', 'flight.arrived') and d->>'$.tailnum' is not null
        qualify row_number() over (partition by tailnum order by event_time desc, p desc, o desc) = 1""",
}


@dataclass(frozen=True, slots=True)
class Agreement:
    """The number of rows compared, and the rows that only one side has (at most 20 each)."""

    rows: int
    only_served: tuple[Mapping[str, Any], ...]
    only_expected: tuple[Mapping[str, Any], ...]

    @property
    def agreed(self) -> bool:
        return not self.only_served and not self.only_expected


class Oracle:
    """The events of one topic, with decisions computed from the producer's file. ``epochs``: (epoch, partition, next
    offset)."""

    def __init__(self, file: Path, topic: str, lateness: timedelta, epochs: Iterable[tuple[int, int, int]]) -> None:
        self._db = duckdb.connect()
        self._db.execute("set timezone = 'UTC'")
        self._db.execute("create table epochs (epoch bigint, p int, until bigint)")
        self._db.executemany("insert into epochs values (?, ?, ?)", list(epochs))
        names = {"file": str(file), "topic": topic, "lateness": lateness.total_seconds()}
        for statement in filter(str.strip, _EVENTS.split(";")):
            self._db.execute(statement, {k: v for k, v in names.items() if f"${k}" in statement})

    def late_by_day(self) -> dict[date, int]:
        """Returns the number of late events per day."""
        found = self._db.execute("select event_time::date, count(*) from judged where late group by 1 order by 1")
        return dict(found.fetchall())

    def compare(self, view: str, served: pa.Table, until: int, complete: Mapping[date, int] | None) -> Agreement:
        """Compares every row of a served view with the expected one.

        ``until``: the epoch that the speed half covers. ``complete``: the days that were served with late events, each
        up to its own epoch; None: all days (kappa).
        """
        self._db.execute("create or replace temp table complete (day date, epoch bigint)")
        if complete:
            self._db.executemany("insert into complete values (?, ?)", list(complete.items()))
        late = "true" if complete is None else "not late"
        self._db.execute(
            "create or replace temp view events as select judged.* from judged "  # noqa: S608 - numbers and our words
            "left join complete on complete.day = judged.event_time::date "
            f"where case when complete.day is null then {late} and judged.epoch <= {int(until)} "
            "else judged.epoch <= complete.epoch end"
        )
        self._db.register("served_rows", served)
        columns = ", ".join(f'"{name}"' for name in served.column_names)
        served_sql, expected_sql = (f"select {columns} from served_rows", f"select {columns} from ({VIEWS[view]})")  # noqa: S608
        if view == "departure_delays":
            exact = "* exclude (average_delay), (average_delay * 1000)::bigint as average_thousandths"
            served_sql, expected_sql = f"select {exact} from served_rows", VIEWS[view]  # noqa: S608
        return Agreement(
            served.num_rows, self._without(served_sql, expected_sql), self._without(expected_sql, served_sql)
        )

    def _without(self, left: str, right: str) -> tuple[Mapping[str, Any], ...]:
        names = [column[0] for column in self._db.execute(f"select * from ({left}) limit 0").description or ()]  # noqa: S608
        order = ", ".join(f'"{name}"' for name in names)
        found = self._db.execute(
            f"select {order} from ({left}) except all select {order} from ({right}) limit 20"  # noqa: S608
        )
        return tuple(dict(zip(names, row, strict=True)) for row in found.fetchall())
