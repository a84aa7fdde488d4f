"""Source events of a row: candidates are found by the row's key and time, then verified with the view's function.

``operate.explain`` does more for one row: it also removes the candidates that have no part in it, with dozens of runs
of the function. Here a Spark session is at work anyway, and few jobs must do for all the rows that differ.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING, Any, Final

from anabranch.certify.comparison_inputs import comparable_rows, function_rows
from anabranch.contracts.model.topics import Sources
from anabranch.views import View
from anabranch.views.model.canonical import canonical
from anabranch.views.model.definition import ENVELOPE, PARTITION_DATE
from anabranch.views.selection.row_sources import declared_reach, key_fields

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

EVENTS_SHOWN: Final = 10
_MAX_EVENTS: Final = 10_000
_MAX_ROWS: Final = 10_000
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class EventRef:
    """The position of one event in the log."""

    topic: str
    partition: int
    offset: int
    type: str
    event_time: datetime
    contract_version: int | None = None
    """Set only if the event's type has several versions."""

    def __str__(self) -> str:
        version = f" by v{self.contract_version}" if self.contract_version is not None else ""
        return f"{self.topic}[{self.partition}]@{self.offset}{version}"


@dataclass(frozen=True, slots=True)
class SourceEvents:
    """The candidate source events of one row. ``rows``: the function's result over all candidates together, as far as
    it has the keys that are looked for; with sorted pairs in place of maps."""

    shown: tuple[EventRef, ...]
    count: int
    rows: Sequence[Row] = field(hash=False)

    def gives(self, row: Row) -> bool:
        """Whether the function's result contains the row; NaN equals NaN."""
        return self.count > 0 and canonical(row) in map(canonical, self.rows)


def find_source_events(view: View, topics: Sources, events: DataFrame, rows: Sequence[Row]) -> list[SourceEvents]:
    """Return, for each row, the events whose fields equal its key columns of the same name and whose time is in its
    window.

    Runs two Spark jobs, however many rows; four if the key contains columns of the event envelope (for example its
    position in the log), which are searched first. A key that is derived in another way finds no events, or too many:
    then the function's result over them doesn't contain the row, and the events count as not verified.
    """
    conditions = [_candidate_condition(view, topics, row, events) for row in rows]
    envelope = [name for name in view.key if name in ENVELOPE]
    sources: list[SourceEvents | None] = [None] * len(rows)
    if envelope:
        narrow = [condition & _same_envelope(row, envelope) for condition, row in zip(conditions, rows, strict=True)]
        first = _matching_events(view, topics, events, narrow, rows)
        sources = [source if source.gives(row) else None for source, row in zip(first, rows, strict=True)]
    left = [n for n, source in enumerate(sources) if source is None]
    found = _matching_events(view, topics, events, [conditions[n] for n in left], [rows[n] for n in left])
    for n, source in zip(left, found, strict=True):
        sources[n] = source
    return [source for source in sources if source is not None]


def _matching_events(
    view: View, topics: Sources, events: DataFrame, conditions: Sequence[Column], wanted: Sequence[Row]
) -> list[SourceEvents]:
    """Return the events that match each condition, and the function's rows over all of them together that have the key
    of a ``wanted`` row."""
    from pyspark.sql import functions as F

    if not conditions:
        return []
    candidates = events.where(reduce(lambda left, right: left | right, conditions))
    hits = F.array(*[F.coalesce(condition, F.lit(False)) for condition in conditions]).alias("hits")
    several = {name for name in view.events if len(topics.versions(name)) > 1}
    names = ["topic", "partition", "offset", "type", "event_time", *(["contract_version"] if several else [])]
    matches = candidates.select(*names, hits)
    refs = [
        (_ref(r, several), r["hits"])
        for r in matches.orderBy("event_time", "offset").limit(_MAX_EVENTS).toArrow().to_pylist()
    ]
    # The checkpoint is a barrier: without it Spark would push the filter by key through the author's function.
    every = function_rows(view, topics, candidates).drop(PARTITION_DATE).localCheckpoint()
    same_key = every.where(_has_key_of(every, view, wanted)).limit(_MAX_ROWS)
    result: list[Row] = comparable_rows(same_key).toArrow().to_pylist()
    by_condition = [[ref for ref, hits in refs if hits[index]] for index in range(len(conditions))]
    return [SourceEvents(tuple(own[:EVENTS_SHOWN]), len(own), result) for own in by_condition]


def _has_key_of(rows: DataFrame, view: View, wanted: Sequence[Row]) -> Column:
    """Return the condition that a row has the key of a ``wanted`` one, by the columns that a literal can be of."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import ArrayType, StructType

    plain = [f.name for f in rows.schema if f.name in view.key and not isinstance(f.dataType, ArrayType | StructType)]
    keys = (
        reduce(and_, (F.col(f"`{name}`").eqNullSafe(F.lit(row[name])) for name in plain), F.lit(True)) for row in wanted
    )
    return reduce(or_, keys, F.lit(False))


def _ref(row: Row, several: Collection[str]) -> EventRef:
    version = row["contract_version"] if row["type"] in several else None
    return EventRef(row["topic"], row["partition"], row["offset"], row["type"], row["event_time"], version)


def _same_envelope(row: Row, names: Sequence[str]) -> Column:
    """Return the condition that an event's envelope columns ``names`` equal the row's."""
    from pyspark.sql import functions as F

    landed = {"log_partition": "partition", "log_offset": "offset"}
    return reduce(and_, (F.col(landed.get(name, name)).eqNullSafe(F.lit(row[name])) for name in names))


def _candidate_condition(view: View, topics: Sources, row: Row, events: DataFrame) -> Column:
    """Return the condition that a landed event may contribute to ``row``. A field that an upcaster derives from other
    fields of an older event matches any value there."""
    from pyspark.sql import functions as F

    start, end = declared_reach(view, row)
    inside = F.lit(True)
    if start is not None and end is not None:
        inside = (F.col("event_time") >= F.lit(start)) & (F.col("event_time") < F.lit(end))
    per_type = []
    for event_type in view.events:
        contract, same = topics.newest(event_type), []
        several = len(topics.versions(event_type)) > 1
        for known in key_fields(topics, event_type, view.key):
            # A key that is called like an object or an array isn't taken from it.
            is_compared = contract.fields[known.name]["type"] not in ("object", "array")
            if is_compared and (not several or _has_field(events, contract.column, known.name)):
                equal = F.col(f"{contract.column}.{known.name}").eqNullSafe(F.lit(row[known.name]))
                sent = known.sent_with
                same.append(equal if sent is None else equal | ~F.col("contract_version").isin(*sent))
        per_type.append(reduce(lambda left, right: left & right, same, F.col("type") == event_type))
    return inside & reduce(lambda left, right: left | right, per_type)


def _has_field(events: DataFrame, column: str, name: str) -> bool:
    """Whether landing's table has the field already."""
    kind = {f.name: f.dataType for f in events.schema.fields}.get(column)
    return kind is not None and name in getattr(kind, "names", ())
