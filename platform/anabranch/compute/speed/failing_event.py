"""The one event that a view's function fails for, of a micro-batch that failed: Spark says only that one did."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

import pyarrow as pa
from anabranch.contracts import Sources, Topic
from anabranch.core.spark import small
from anabranch.ingest.landing.schema import EVENT_DATE, VALID, epochs_of_file
from anabranch.ingest.landing.sql import rows_of_files
from anabranch.lake import Cut
from anabranch.views.definition import View
from anabranch.views.dry_run import EventSelection, first_error
from deltalake import DeltaTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECONDS = 30.0
"""How long is looked for it: each look is a job over half of the events of the one before."""
MOST = 500_000
"""Of more records none is looked for: they are all of history, mostly."""


@dataclass(frozen=True, slots=True)
class FailingEvent:
    """An event that the function fails for when it is given no other; by its place in the log."""

    topic: str
    day: date
    partition: int
    offset: int
    event_id: str

    def __str__(self) -> str:
        return f"event {self.event_id!r} at {self.topic}/{self.partition}@{self.offset} of {self.day}"


def culprit(
    spark: SparkSession, landing: Mapping[str, str], view: View, topics: Sources, after: Cut, upto: Cut
) -> FailingEvent | None:
    """The first one among the events that landed between two cuts, in the order of the log; None where the function
    doesn't fail for one alone, or it isn't found in time. Reads only."""
    events = [event for topic in topics.each for event in _events(landing[topic.name], view, topic, after, upto)]
    end, own = time.monotonic() + SECONDS, small(spark)

    def fails(some: Sequence[FailingEvent]) -> bool:
        return first_error(own, landing, view, topics, lambda topic: _spans(topic, some), late=view.kappa) is not None

    if not events or not fails(events):
        return None
    while len(events) > 1:
        half = len(events) // 2
        if time.monotonic() > end:
            return None
        if fails(events[:half]):
            events = events[:half]
        elif fails(events[half:]):
            events = events[half:]
        else:
            return None
    return events[0]


def _events(uri: str, view: View, topic: Topic, after: Cut, upto: Cut) -> list[FailingEvent]:
    low = after.epoch(topic.name)
    asked = {
        "types": [name for name in view.events if name in topic.event_types],
        "low": low,
        "high": upto.epoch(topic.name),
        "late": view.kappa,
    }
    files = pa.table(DeltaTable(uri).get_add_actions(flatten=True))
    each = zip(files["path"].to_pylist(), files["num_records"].to_pylist(), strict=True)
    new = {path: count for path, count in each if (epochs := epochs_of_file(path)) is None or epochs[1] > low}
    if not new or sum(new.values()) > MOST:
        return []
    with rows_of_files([f"{uri}/{path}" for path in new]) as rows:
        return [FailingEvent(topic.name, *row) for row in rows.execute(_EVENTS, asked).fetchall()]


def _spans(topic: Topic, events: Sequence[FailingEvent]) -> EventSelection:
    """Exactly these, which follow each other in the log, of the valid rows of their micro-batch."""
    here = [event for event in events if event.topic == topic.name]
    if not here:
        return EventSelection("false", frozenset())
    places: dict[int, list[int]] = {}
    for event in here:
        places.setdefault(event.partition, []).append(event.offset)
    each = (f"(`partition` = {p} AND `offset` BETWEEN {min(o)} AND {max(o)})" for p, o in places.items())
    return EventSelection(" OR ".join(each), frozenset(event.day for event in here))


_EVENTS = f"""
    SELECT {EVENT_DATE}, "partition", "offset", event_id FROM rows
    WHERE decision = '{VALID}' AND type IN $types AND epoch > $low AND epoch <= $high AND (NOT late OR $late)
    ORDER BY 2, 3"""  # noqa: S608 - names of our own columns
