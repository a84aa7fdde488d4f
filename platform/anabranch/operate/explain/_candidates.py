"""Reads the landed events that can be behind a row (candidates), with their log coordinates. Needs no Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, Final

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.contracts import Topic
from anabranch.contracts.model.topics import Sources
from anabranch.core.errors import TryAgain
from anabranch.core.settings import Settings
from anabranch.ingest.landing.table.schema import EVENT_DATE, IS_EVENT, LOADED, landing_schema
from anabranch.ingest.landing.table.sql import landed_rows
from anabranch.lake import open_table
from anabranch.lake.cut import Cut
from anabranch.lake.layout import landing_table
from anabranch.views import View
from anabranch.views.selection.inputs import needed_dates
from anabranch.views.selection.row_sources import key_fields

MOST: Final = 40_000
"""Maximum number of candidates of a topic in memory; if there are more, only those that share the row's key are read,
the first so many of them."""
_UNUSED_COLUMNS = {"key", "value", "headers", "senttime", "receivedtime", "device_time", "reason", "released_from"}
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class LandedEvent:
    """One event with its coordinates and what landing decided about it; ``late`` includes loaded ones: events that only
    batch reads. ``loaded``: it came from a file; its partition is negative then. ``data`` has the fields of the
    contract version that it was sent with; ``reshaped`` names those that the newest version lacks or that an upcaster
    may have changed, so that they can't be compared with a view's cells."""

    topic: str
    partition: int
    offset: int
    type: str
    event_time: datetime
    append_time: datetime | None
    epoch: int
    late: bool
    contract_version: int | None
    event_id: str
    data: Row = field(hash=False, compare=False)
    reshaped: frozenset[str] = frozenset()
    loaded: bool = False

    def __str__(self) -> str:
        if self.loaded:
            return f"{self.topic}[file {-self.partition}]@{self.offset}"
        return f"{self.topic}[{self.partition}]@{self.offset}"

    @property
    def place(self) -> tuple[str, int, int]:
        return self.topic, self.partition, self.offset


@dataclass(frozen=True)
class Candidates:
    """Events in the order of event time. ``complete``: they include all that the row's partition can need.
    ``unread``: how many more share the row's key, but weren't read."""

    table: pa.Table
    events: Sequence[LandedEvent]
    complete: bool
    unread: int = 0

    def up_to(self, cut: Cut, *, late: bool, loaded: Mapping[str, int] | None = None) -> NDArray[np.bool_]:
        """A mask of the events that a path sees at ``cut``, with late events or without. ``loaded``: of the events from
        files only those up to these epochs (None: all)."""
        epochs = np.array([event.epoch <= cut.epoch(event.topic) for event in self.events], np.bool_)
        lates = np.array([event.late for event in self.events], np.bool_)
        if loaded is not None:
            epochs &= np.array([not e.loaded or e.epoch <= loaded.get(e.topic, 0) for e in self.events], np.bool_)
        return epochs & (late | ~lates)


def candidates(
    settings: Settings, views: Sequence[View], topics: Sources, key: Row, day: date | None, cut: Cut
) -> Candidates:
    """Returns the events up to ``cut`` that a row of ``day`` can need in any of ``views``, late and loaded ones
    included.

    For a view without partitions, or with more than MOST candidates, only those whose fields equal the key's columns of
    the same name, and of these the first MOST of a topic. Scans the files of those days once per topic; of tables that
    a view reads, all rows until then."""
    days = None
    if day is not None and not any(view.kappa for view in views):
        days = sorted({needed for view in views for needed in needed_dates(view, [day])})
    history = {name for view in views for name in view.tables}
    parts = []
    for topic in topics.each:
        types = dict.fromkeys(name for view in views for name in view.events if name in topic.event_types)
        event_types, table_types = ([n for n in types if (n in history) is table] for table in (False, True))
        epoch = cut.epoch(topic.name)
        if event_types:
            parts.append(_of_topic(settings, topic, event_types, key, days, epoch))
        if table_types and days:
            parts.append(_of_topic(settings, topic, table_types, key, None, epoch, until=days[-1]))
    return _merge(parts)


def _of_topic(
    settings: Settings,
    topic: Topic,
    types: Sequence[str],
    key: Row,
    days: Sequence[date] | None,
    epoch: int,
    *,
    until: date | None = None,
) -> Candidates:
    table = open_table(landing_table(settings, topic.name))
    if table is None:
        raise TryAgain("LANDING_EMPTY", f"nothing of topic {topic.name} has landed yet", next_step="anabranch status")
    with landed_rows(table, days) as rows:
        schema = rows.sql("SELECT * FROM rows LIMIT 0").to_arrow_table().schema
        known = set(schema.names) - _UNUSED_COLUMNS
        wanted = [f.name for f in landing_schema(topic) if f.name in known and _is_needed(types, topic, f.name)]
        sql = f"""SELECT {", ".join(f'"{name}"' for name in wanted)} FROM rows
            WHERE {IS_EVENT} AND type IN $types AND epoch <= $epoch"""  # noqa: S608 - our own columns
        given: dict[str, Any] = {"types": list(types), "epoch": epoch}
        if until is not None:
            sql, given = f"{sql} AND {EVENT_DATE} <= $until", {**given, "until": until}
        keyed, values = _key_condition(types, topic, key, schema)
        keyed_only = (days is None and until is None) or _count(rows, sql, given) > MOST
        if keyed_only:
            sql, given = f"{sql} AND ({keyed})", {**given, **values}
        ordered = f'{sql} ORDER BY event_time, partition, "offset" LIMIT {MOST}'
        found = rows.sql(ordered, params=given).to_arrow_table()
        unread = _count(rows, sql, given) - MOST if found.num_rows == MOST else 0
    landed = _cast_to_landing(found, topic)
    return Candidates(landed, _events(landed, types, topic), not keyed_only, unread)


def _merge(parts: Sequence[Candidates]) -> Candidates:
    """Merges the topics' candidates in the order of event time."""
    if len(parts) == 1:
        return parts[0]
    events = [event for part in parts for event in part.events]
    order = sorted(range(len(events)), key=lambda n: (events[n].event_time, events[n].place))
    table = pa.concat_tables([part.table for part in parts], promote_options="default")
    taken = table.take(pa.array(order, pa.int64()))
    complete, unread = all(part.complete for part in parts), sum(part.unread for part in parts)
    return Candidates(taken, [events[n] for n in order], complete, unread)


def _count(rows: duckdb.DuckDBPyConnection, sql: str, given: Mapping[str, Any]) -> int:
    counted = rows.execute(f"SELECT count(*) FROM ({sql})", given).fetchall()  # noqa: S608 - made above
    return int(counted[0][0])


def _is_needed(types: Sequence[str], topic: Topic, column: str) -> bool:
    """Whether this column is needed: of the typed columns only those of these event types."""
    own = {topic.newest(name).column for name in types}
    return column in own or column not in {topic.newest(name).column for name in topic.event_types}


def _key_condition(types: Sequence[str], topic: Topic, key: Row, schema: pa.Schema) -> tuple[str, dict[str, Any]]:
    """The SQL condition "the fields equal the key's columns of the same name", per event type, and its parameters.
    Events of a contract version from which an upcaster computes the field always pass."""
    values, cases, parameters = {}, [], {name: f"k{number}" for number, name in enumerate(key)}
    for event_type in types:
        column = topic.newest(event_type).column
        typed = {f.name: f.type for f in landing_schema(topic).field(column).type}
        stored_fields = {f.name for f in schema.field(column).type} if column in schema.names else set()
        same = [f"type = '{event_type}'"]
        for known in key_fields(topic, event_type, key):
            name, value = known.name, key[known.name]
            if name in stored_fields and (value is None or pa.scalar(value).type == typed[name]):
                equal, sent = f'"{column}"."{name}" IS NOT DISTINCT FROM ${parameters[name]}', known.sent_with
                same.append(equal if sent is None else f"({equal} OR contract_version NOT IN {_sql_list(sent)})")
                values[parameters[name]] = value
        cases.append(f"({' AND '.join(same)})")
    return " OR ".join(cases), values


def _sql_list(numbers: Sequence[int]) -> str:
    return f"({', '.join(map(str, numbers))})"


def _cast_to_landing(found: pa.Table, topic: Topic) -> pa.Table:
    """Casts to landing's schema: files written before a contract grew lack its newer fields."""
    fields = [f for f in landing_schema(topic) if f.name in found.column_names or f.name == EVENT_DATE]
    columns = []
    for f in fields:
        column = found[f.name].combine_chunks()
        columns.append(column if column.type == f.type else _cast(column, f.type))
    return pa.table(columns, pa.schema(fields))


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    return pa.array(column.to_pylist(), kind) if pa.types.is_struct(kind) else column.cast(kind)


def _events(table: pa.Table, types: Sequence[str], topic: Topic) -> list[LandedEvent]:
    columns = {event_type: topic.newest(event_type).column for event_type in types}
    shown = {event_type: _by_version(topic, event_type) for event_type in types}
    rows = table.to_pylist(maps_as_pydicts="strict")
    return [
        LandedEvent(
            topic.name,
            row["partition"],
            row["offset"],
            row["type"],
            row["event_time"],
            row.get("append_time"),
            row["epoch"],
            bool(row["late"]) or row["decision"] == LOADED,
            row.get("contract_version"),
            row["event_id"],
            *_sent_fields(row.get(columns[row["type"]]) or {}, shown[row["type"]].get(row.get("contract_version"))),
            loaded=row["decision"] == LOADED,
        )
        for row in rows
    ]


_Fields = tuple[Sequence[str], frozenset[str]]


def _by_version(topic: Topic, event_type: str) -> dict[int, _Fields]:
    """For an event type with several contract versions: each version's fields, and which of them are ``reshaped``."""
    versions = topic.versions(event_type)
    if len(versions) == 1:
        return {}
    kept = {name: topic.as_sent(event_type, name) for contract in versions for name in contract.fields}
    return {c.version: (tuple(c.fields), frozenset(n for n in c.fields if c.version not in kept[n])) for c in versions}


def _sent_fields(data: Row, fields: _Fields | None) -> tuple[Row, frozenset[str]]:
    if fields is None:
        return data, frozenset()
    names, reshaped = fields
    return {name: data.get(name) for name in names}, reshaped
