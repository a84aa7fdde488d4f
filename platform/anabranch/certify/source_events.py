"""The events behind a row: found by the row's key and time, verified by running the view's function on them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any, Final

from anabranch.certify.comparison_inputs import function_rows
from anabranch.contracts import Sources
from anabranch.views.definition import ENVELOPE, PARTITION_DATE, View

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

EVENTS_SHOWN: Final = 10
_MOST_EVENTS: Final = 10_000
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class EventRef:
    """Where one event is in the log."""

    topic: str
    partition: int
    offset: int
    type: str
    event_time: datetime
    contract_version: int | None = None
    """Only where its type has several."""

    def __str__(self) -> str:
        version = f" by v{self.contract_version}" if self.contract_version is not None else ""
        return f"{self.topic}[{self.partition}]@{self.offset}{version}"


@dataclass(frozen=True, slots=True)
class SourceEvents:
    """The events behind one row, and what the function says of all candidates together."""

    shown: tuple[EventRef, ...]
    count: int
    rows: Sequence[Row] = field(hash=False)

    def gives(self, row: Row) -> bool:
        return self.count > 0 and row in self.rows


def evidence(view: View, topics: Sources, events: DataFrame, rows: Sequence[Row]) -> list[SourceEvents]:
    """For each row the events whose fields equal its key columns of the same name and whose time lies in its
    window. Two Spark jobs, however many rows; four where the key names an event's own columns (its place in the log,
    say), which are asked for first. A key that is made otherwise finds no events, or too many: then the function's
    result over them isn't the row, and the evidence counts as not verified."""
    conditions = [behind_row(view, topics, row, events) for row in rows]
    own = [name for name in view.key if name in ENVELOPE]
    found: list[SourceEvents | None] = [None] * len(rows)
    if own:
        narrow = [condition & _itself(row, own) for condition, row in zip(conditions, rows, strict=True)]
        first = _behind(view, topics, events, narrow)
        found = [behind if behind.gives(row) else None for behind, row in zip(first, rows, strict=True)]
    left = [n for n, behind in enumerate(found) if behind is None]
    for n, behind in zip(left, _behind(view, topics, events, [conditions[n] for n in left]), strict=True):
        found[n] = behind
    return [behind for behind in found if behind is not None]


def _behind(view: View, topics: Sources, events: DataFrame, conditions: Sequence[Column]) -> list[SourceEvents]:
    """The events that each condition finds, and the function's rows over all of them together."""
    from pyspark.sql import functions as F

    if not conditions:
        return []
    candidates = events.where(reduce(lambda left, right: left | right, conditions))
    hits = F.array(*[F.coalesce(condition, F.lit(False)) for condition in conditions]).alias("hits")
    several = {name for name in view.events if len(topics.versions(name)) > 1}
    names = ["topic", "partition", "offset", "type", "event_time", *(["contract_version"] if several else [])]
    found = candidates.select(*names, hits)
    refs = [
        (_ref(r, several), r["hits"])
        for r in found.orderBy("event_time", "offset").limit(_MOST_EVENTS).toArrow().to_pylist()
    ]
    again: list[Row] = function_rows(view, topics, candidates).drop(PARTITION_DATE).toArrow().to_pylist()
    mine = [[ref for ref, hits in refs if hits[index]] for index in range(len(conditions))]
    return [SourceEvents(tuple(own[:EVENTS_SHOWN]), len(own), again) for own in mine]


def _ref(row: Row, several: Collection[str]) -> EventRef:
    version = row["contract_version"] if row["type"] in several else None
    return EventRef(row["topic"], row["partition"], row["offset"], row["type"], row["event_time"], version)


def _itself(row: Row, names: Sequence[str]) -> Column:
    """The condition on landed events that says "it has these columns of the envelope itself"."""
    from pyspark.sql import functions as F

    landed = {"log_partition": "partition", "log_offset": "offset"}
    return reduce(and_, (F.col(landed.get(name, name)).eqNullSafe(F.lit(row[name])) for name in names))


def behind_row(view: View, topics: Sources, row: Row, events: DataFrame) -> Column:
    """The condition on landed events that says "this one can be behind ``row``". A field that an upcaster makes of an
    older event's fields may have any value in it."""
    from pyspark.sql import functions as F

    start, end = _window(view, row)
    inside = F.lit(True)
    if start is not None and end is not None:
        inside = (F.col("event_time") >= F.lit(start)) & (F.col("event_time") < F.lit(end))
    per_type = []
    for event_type in view.events:
        column = topics.newest(event_type).column
        several, same = len(topics.versions(event_type)), []
        for name in view.key:
            sent = topics.as_sent(event_type, name)
            if sent and (several == 1 or _has(events, column, name)):
                equal = F.col(f"{column}.{name}").eqNullSafe(F.lit(row[name]))
                same.append(equal if len(sent) == several else equal | ~F.col("contract_version").isin(*sent))
        per_type.append(reduce(lambda left, right: left & right, same, F.col("type") == event_type))
    return inside & reduce(lambda left, right: left | right, per_type)


def _has(events: DataFrame, column: str, name: str) -> bool:
    """Whether landing's table has the field already."""
    held = {f.name: f.dataType for f in events.schema.fields}.get(column)
    return held is not None and name in getattr(held, "names", ())


def _window(view: View, row: Row) -> tuple[datetime | None, datetime | None]:
    """From when to when events can be behind ``row``: its own window, else its day; and the view's reach."""
    if view.partition_by is None:
        return None, None
    start, end = row.get("window_start"), row.get("window_end")
    if not isinstance(start, datetime) or not isinstance(end, datetime):
        moment = row.get(view.partition_by)
        if isinstance(moment, datetime):
            moment = moment.astimezone(UTC).date()
        if not isinstance(moment, date):
            return None, None
        start = datetime.combine(moment, time(), UTC)
        end = start + timedelta(days=1)
    return start - view.lookback, end + view.lookahead
