"""Counts which contract versions have landed, from which producers and when; reads landing's table without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final

from anabranch.contracts import Topic
from anabranch.core.settings import Settings
from anabranch.ingest.landing.table.schema import IS_EVENT, LOADED
from anabranch.ingest.landing.table.sql import landed_rows
from anabranch.lake import open_table
from anabranch.lake.layout import landing_table

PRODUCERS: Final = 3
"""How many sources are named, the largest first."""
_COUNTED = f"""
WITH counted AS (
    SELECT type, contract_version AS version, source, count(*) AS events, count(*) FILTER (late) AS late,
        count_if(decision = '{LOADED}') AS loaded,
        min(epoch_us(event_time)) AS first_us, max(epoch_us(event_time)) AS last_us
    FROM rows WHERE {IS_EVENT} GROUP BY ALL)
SELECT type, version, sum(events)::BIGINT, sum(late)::BIGINT, sum(loaded)::BIGINT,
    make_timestamp(min(first_us)), make_timestamp(max(last_us)), count(*),
    list({{'source': source, 'events': events}} ORDER BY events DESC, source)[:{PRODUCERS}]
FROM counted GROUP BY type, version"""  # noqa: S608 - names of our own columns


@dataclass(frozen=True, slots=True)
class Producer:
    """One ``source``, and the number of valid events that it has sent."""

    source: str
    events: int


@dataclass(frozen=True, slots=True)
class VersionUsage:
    """One version of one event type. ``events`` counts the valid ones, ``late`` those of them that are late, ``loaded``
    those from files; ``first`` and ``last`` are event times in UTC, without a time zone. ``sources`` counts all
    producers, ``producers`` names the largest. ``declared`` is false for a version that the topic doesn't declare (any
    more)."""

    topic: str
    type: str
    version: int
    declared: bool
    newest: bool
    events: int = 0
    late: int = 0
    first: datetime | None = None
    last: datetime | None = None
    sources: int = 0
    producers: tuple[Producer, ...] = ()
    loaded: int = 0

    def to_json(self) -> dict[str, Any]:
        first, last = (f"{at.isoformat()}Z" if at else None for at in (self.first, self.last))
        return {**asdict(self), "first": first, "last": last, "producers": [asdict(each) for each in self.producers]}


def census(settings: Settings, topic: Topic) -> list[VersionUsage]:
    """Every version of the topic's event types that is declared or has landed, by type and version.

    One scan of five small columns: some tenths of a second for a million records. A version that never landed has no
    events, and neither has any version of a topic that was never landed.
    """
    table = open_table(landing_table(settings, topic.name))
    found: dict[tuple[str, int], tuple[Any, ...]] = {}
    if table is not None:
        with landed_rows(table) as rows:
            found = {(row[0], row[1]): row[2:] for row in rows.execute(_COUNTED).fetchall()}
    return list(_seen(topic, found))


def _seen(topic: Topic, found: dict[tuple[str, int], tuple[Any, ...]]) -> Iterator[VersionUsage]:
    declared = {(c.name, c.version) for c in topic.contracts}
    types = [*topic.event_types, *sorted({kind for kind, _ in found} - set(topic.event_types))]
    for kind, version in sorted(declared | set(found), key=lambda key: (types.index(key[0]), key[1])):
        known = (kind, version) in declared
        newest = known and topic.newest(kind).version == version
        if (kind, version) not in found:
            yield VersionUsage(topic.name, kind, version, known, newest)
            continue
        events, late, loaded, first, last, sources, largest = found[kind, version]
        producers = tuple(Producer(each["source"], each["events"]) for each in largest)
        yield VersionUsage(
            topic.name, kind, version, known, newest, events, late, first, last, sources, producers, loaded
        )
