"""Find the single event for which a view's function fails, after a micro-batch failed. Spark doesn't say which one."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

import pyarrow as pa

from anabranch.contracts import Topic
from anabranch.contracts.model.topics import Sources
from anabranch.core.engine.spark import small
from anabranch.ingest.landing.table.schema import EVENT_DATE, VALID, epochs_of_file
from anabranch.ingest.landing.table.sql import rows_of_files
from anabranch.lake.cut import Cut
from anabranch.lake.log.delta_tables import data_path, delta_table, folder_of
from anabranch.views import View
from anabranch.views.selection.dry_run import EventSelection, first_error

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECONDS = 30.0
"""How long the search may take: each step is a Spark job over half as many events as the previous one."""
MOST = 500_000
"""With more records there is no search: the micro-batch is usually all of history."""


@dataclass(frozen=True, slots=True)
class FailingEvent:
    """An event for which the function fails even without any other event, with its position in the log."""

    topic: str
    day: date
    partition: int
    offset: int
    event_id: str

    def __str__(self) -> str:
        return f"event {self.event_id!r} at {self.topic}/{self.partition}@{self.offset} of {self.day}"


def find_failing_event(
    spark: SparkSession, landing: Mapping[str, str], view: View, topics: Sources, after: Cut, upto: Cut
) -> FailingEvent | None:
    """Bisects the events that landed between two cuts and returns the first failing one, in the order of the log. None
    if no single event fails, or none was found in time. Read-only."""
    events = [event for topic in topics.each for event in _events(landing[topic.name], view, topic, after, upto)]
    end, own = time.monotonic() + SECONDS, small(spark)

    def fails(some: Sequence[FailingEvent]) -> bool:
        return first_error(own, landing, view, topics, lambda topic: _select(topic, some), late=view.kappa) is not None

    if not events or not fails(events):
        return None
    known = True  # that it fails for these
    while len(events) > 1:
        if time.monotonic() > end:
            return None
        half = len(events) // 2
        known = fails(events[:half])
        # The other half isn't tried: if the function fails for events together only, that shows at the end.
        events = events[:half] if known else events[half:]
    return events[0] if known or fails(events) else None


def _events(uri: str, view: View, topic: Topic, after: Cut, upto: Cut) -> list[FailingEvent]:
    low = after.epoch(topic.name)
    parameters = {
        "types": [name for name in view.events if name in topic.event_types],
        "low": low,
        "high": upto.epoch(topic.name),
        "late": view.kappa,
    }
    table = delta_table(uri)
    files = pa.table(table.get_add_actions(flatten=True))
    counts = zip(files["path"].to_pylist(), files["num_records"].to_pylist(), strict=True)
    new = {path: count for path, count in counts if (epochs := epochs_of_file(path)) is None or epochs[1] > low}
    if not new or sum(new.values()) > MOST:
        return []
    with rows_of_files([data_path(folder_of(table), path) for path in new]) as rows:
        return [FailingEvent(topic.name, *row) for row in rows.execute(_EVENTS, parameters).fetchall()]


def _select(topic: Topic, events: Sequence[FailingEvent]) -> EventSelection:
    """Selects exactly these events by offset ranges; they are consecutive among the valid rows of their micro-batch."""
    own = [event for event in events if event.topic == topic.name]
    if not own:
        return EventSelection("false", frozenset())
    offsets: dict[int, list[int]] = {}
    for event in own:
        offsets.setdefault(event.partition, []).append(event.offset)
    ranges = (f"(`partition` = {p} AND `offset` BETWEEN {min(o)} AND {max(o)})" for p, o in offsets.items())
    return EventSelection(" OR ".join(ranges), frozenset(event.day for event in own))


_EVENTS = f"""
    SELECT {EVENT_DATE}, "partition", "offset", event_id FROM rows
    WHERE decision = '{VALID}' AND type IN $types AND epoch > $low AND epoch <= $high AND (NOT late OR $late)
    ORDER BY 2, 3"""  # noqa: S608 - names of our own columns
