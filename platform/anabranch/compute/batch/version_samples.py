"""Before all of history is read: a few events of each version of each contract go through the view's function.

A version of years ago that breaks a new view is found in seconds, with an event of it, and not after hours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

from anabranch.contracts import Sources, Topic
from anabranch.core.errors import BadDefinition
from anabranch.core.settings import Settings
from anabranch.ingest.landing.schema import EVENT_DATE, VALID
from anabranch.ingest.landing.sql import landed_rows
from anabranch.lake import Cut
from anabranch.lake.commits import open_table
from anabranch.lake.layout import landing_table
from anabranch.views.definition import View
from anabranch.views.dry_run import EventSelection, first_error

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OF_EACH = 20
"""Events of each version of each type."""


@dataclass(frozen=True, slots=True)
class EventRef:
    """One landed event, by its topic and place in the log."""

    topic: str
    type: str
    version: int
    day: date
    partition: int
    offset: int
    event_id: str


def try_each_version(spark: SparkSession, settings: Settings, view: View, topics: Sources, cut: Cut) -> int:
    """Run the function over a sample of history and throw the rows away; how many events that was.

    BadDefinition VIEW_BREAKS_ON names the type, the version and the first event of the sample that it fails for. What
    depends on many events together isn't found.
    """
    places = [place for topic in topics.each for place in _sample(settings, view, topic, cut)]
    if not places or _error(spark, settings, view, topics, places) is None:
        return len(places)
    for place in places:
        error = _error(spark, settings, view, topics, [place])
        if error is not None:
            raise BadDefinition(
                "VIEW_BREAKS_ON",
                f"{view.origin}: {view.name} v{view.version} fails for {place.type} v{place.version}, as in event "
                f"{place.event_id!r} at {place.topic}/{place.partition}@{place.offset} of {place.day}: {error}",
                state="nothing was rebuilt",
                next_step="mend the function for this version's events (anabranch census lists all versions)",
                type=place.type,
                version=place.version,
                offset=place.offset,
            )
    return len(places)  # they fail together only: the rebuild itself says why


def _sample(settings: Settings, view: View, topic: Topic, cut: Cut) -> list[EventRef]:
    table = open_table(landing_table(settings, topic.name))
    types = [name for name in view.events if name in topic.event_types]
    if table is None:
        return []
    with landed_rows(table) as rows:
        found = rows.execute(_SAMPLE, {"types": types, "epoch": cut.epoch(topic.name)}).fetchall()
    return [EventRef(topic.name, *row) for row in found]


def _error(
    spark: SparkSession, settings: Settings, view: View, topics: Sources, places: Sequence[EventRef]
) -> str | None:
    """What the function fails with for these events; None when it doesn't."""

    def chosen(topic: Topic) -> EventSelection:
        here = [place for place in places if place.topic == topic.name]
        return EventSelection(" OR ".join(map(_at, here)) or "false", frozenset(place.day for place in here))

    landing = {topic.name: landing_table(settings, topic.name) for topic in topics.each}
    return first_error(spark, landing, view, topics, chosen)


def _at(place: EventRef) -> str:
    return f"({EVENT_DATE} = DATE '{place.day}' AND `partition` = {place.partition} AND `offset` = {place.offset})"


_SAMPLE = f"""
    SELECT type, contract_version, {EVENT_DATE}, "partition", "offset", event_id
    FROM rows WHERE decision = '{VALID}' AND type IN $types AND epoch <= $epoch
    QUALIFY row_number() OVER (PARTITION BY type, contract_version ORDER BY hash("partition", "offset")) <= {OF_EACH}
    ORDER BY 1, 2, 4, 5"""  # noqa: S608 - names of our own columns
