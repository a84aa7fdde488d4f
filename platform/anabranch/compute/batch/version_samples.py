"""Try a view's function on a few events of every contract version, before a rebuild reads all of history.

A contract version of years ago that breaks a new view is found in seconds, with an example, and not after hours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

from anabranch.contracts import Topic
from anabranch.core.errors import BadDefinition
from anabranch.ingest.landing.table.schema import EVENT_DATE, IS_EVENT
from anabranch.ingest.landing.table.sql import landed_rows
from anabranch.lake import open_table
from anabranch.lake.cut import Cut
from anabranch.lake.layout import landing_table
from anabranch.views.model.handle import ViewHandle
from anabranch.views.selection.dry_run import EventSelection, first_error

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAMPLE_SIZE = 20
"""Events per version of each event type."""


@dataclass(frozen=True, slots=True)
class EventRef:
    """One landed event, with its topic and its position in the log."""

    topic: str
    type: str
    version: int
    day: date
    partition: int
    offset: int
    event_id: str


def try_each_version(spark: SparkSession, view: ViewHandle, cut: Cut) -> int:
    """Runs the function over a sample of history and discards the rows. Returns the number of events.

    Raises BadDefinition VIEW_BREAKS_ON with the type, the version and the first event of the sample that fails. Errors
    that need many events together aren't found.
    """
    sample = [event for topic in view.topics.each for event in _sample(view, topic, cut)]
    if not sample or _error(spark, view, sample) is None:
        return len(sample)
    for event in sample:
        error = _error(spark, view, [event])
        if error is not None:
            raise BadDefinition(
                "VIEW_BREAKS_ON",
                f"{view.definition.origin}: {view} fails for {event.type} v{event.version}, for example event "
                f"{event.event_id!r} at {event.topic}/{event.partition}@{event.offset} of {event.day}: {error}",
                state="nothing was rebuilt",
                next_step="correct the function for events of this version (anabranch census lists all versions)",
                type=event.type,
                version=event.version,
                offset=event.offset,
            )
    return len(sample)  # they fail only together: the rebuild itself will raise the error


def _sample(view: ViewHandle, topic: Topic, cut: Cut) -> list[EventRef]:
    table = open_table(landing_table(view.settings, topic.name))
    types = [name for name in view.definition.events if name in topic.event_types]
    if table is None:
        return []
    with landed_rows(table) as rows:
        found = rows.execute(_SAMPLE, {"types": types, "epoch": cut.epoch(topic.name)}).fetchall()
    return [EventRef(topic.name, *row) for row in found]


def _error(spark: SparkSession, view: ViewHandle, events: Sequence[EventRef]) -> str | None:
    """The function's error for these events; None without one."""

    def selection(topic: Topic) -> EventSelection:
        own = [event for event in events if event.topic == topic.name]
        return EventSelection(" OR ".join(map(_condition, own)) or "false", frozenset(event.day for event in own))

    landing = {topic.name: landing_table(view.settings, topic.name) for topic in view.topics.each}
    return first_error(spark, landing, view.definition, view.topics, selection)


def _condition(event: EventRef) -> str:
    return f"({EVENT_DATE} = DATE '{event.day}' AND `partition` = {event.partition} AND `offset` = {event.offset})"


_SAMPLE = f"""
    SELECT type, contract_version, {EVENT_DATE}, "partition", "offset", event_id
    FROM rows WHERE {IS_EVENT} AND type IN $types AND epoch <= $epoch
    QUALIFY row_number() OVER (PARTITION BY type, contract_version ORDER BY hash("partition", "offset"))
        <= {SAMPLE_SIZE}
    ORDER BY 1, 2, 4, 5"""  # noqa: S608 - names of our own columns
