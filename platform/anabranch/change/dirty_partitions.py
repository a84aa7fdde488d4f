"""Dirty partitions: published days with later events in landing. A repair rebuilds them.

A dirty flag isn't stored. Landing has the epoch of each event, and the batch table's newest commit the cut of each
published day: a day is dirty while an event that its rows can depend on lies between the two. So a flag can't be lost
or left over: publishing a day at a new cut makes it clean up to that cut and no further (ADR 0013).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from anabranch.compute.batch.publish import Published, publications
from anabranch.compute.batch.rebuild import cut_at
from anabranch.contracts import Topic
from anabranch.ingest.landing.table.event_counts import events_since
from anabranch.lake import open_table
from anabranch.lake.cut import Cut
from anabranch.lake.layout import landing_table
from anabranch.serve.table_snapshots import snapshot
from anabranch.views import View
from anabranch.views.model.handle import ViewHandle
from anabranch.views.selection.inputs import watermark_of
from anabranch.views.selection.partitions import passed_partitions, reach, touched_partitions

AffectedDays = Callable[[date], Sequence[date]]
"""Maps the day of an event to the published days whose rows can depend on it."""


@dataclass(frozen=True, slots=True)
class DirtyPartition:
    """A published day, and how many events (all, late, loaded from files) have landed since it was published at the cut
    ``at``. All can be 0: if the watermark has passed the day since, in a view that closes partitions, or if its speed
    half has a newer cut."""

    partition: date
    at: Cut
    events: int
    late: int
    loaded: int = 0


def dirty_partitions(view: ViewHandle, cut: Cut | None = None) -> list[DirtyPartition]:
    """Return the published days of ``view`` for which ``cut`` (default: the newest landed) has later events, in order.

    Days that were never published are not included. Doesn't use Spark, and opens only files that landed after the cuts
    of the days that they affect.
    """
    known = publications(view.batch_table)
    if not known:
        return []
    newest = cut or cut_at(view.settings, view.topics)
    dirty: dict[date, list[int]] = {day: [0, 0, 0] for day in _closed_since(view, known, newest)}
    for topic in view.topics.each:
        table = open_table(landing_table(view.settings, topic.name))
        if table is None:
            continue
        epochs = {day: published.cut.epoch(topic.name) for day, published in known.items()}
        for days_of, types in _inputs(view.definition, topic, sorted(known)):
            for count in events_since(table, types, _oldest_epoch(epochs, days_of), newest.epoch(topic.name)):
                for day in days_of(count.day):
                    if epochs[day] < count.epoch:
                        counts = dirty.setdefault(day, [0, 0, 0])
                        counts[0] += count.events
                        counts[1] += count.late
                        counts[2] += count.loaded
    for day in _served_from_speed(view, known, newest) - dirty.keys():
        dirty[day] = [0, 0, 0]
    return [DirtyPartition(day, known[day].cut, *dirty[day]) for day in sorted(dirty)]


def _inputs(view: View, topic: Topic, published: Sequence[date]) -> list[tuple[AffectedDays, list[str]]]:
    """Group the event types of ``topic`` that ``view`` reads by which published days an event affects."""

    def around(day: date) -> list[date]:
        return [each for each in touched_partitions(view, [day]) if each in known]

    def from_then_on(day: date) -> Sequence[date]:
        return published[bisect_left(published, date.fromordinal(day.toordinal() - reach(view)[1])) :]

    known, types = set(published), [name for name in view.events if name in topic.event_types]
    groups: list[tuple[AffectedDays, list[str]]] = [
        (around, [name for name in types if name not in view.tables]),
        (from_then_on, [name for name in types if name in view.tables]),
    ]
    return [group for group in groups if group[1]]


def _oldest_epoch(epochs: Mapping[date, int], days_of: AffectedDays) -> Callable[[date], int | None]:
    """Return a function from an event's day to the oldest published epoch of the days that it affects; None if it
    affects none."""
    return lambda day: min((epochs[each] for each in days_of(day)), default=None)


def _served_from_speed(view: ViewHandle, known: Mapping[date, Published], newest: Cut) -> set[date]:
    """Return the days whose speed half says that it has changed behind the cut of the published one. No event need be
    the reason: a stream that catches up, or begins anew, gives all rows of a micro-batch the epoch that it ends at.
    Readers get such a day from the speed half, without its late and loaded events, until it is published at a newer
    cut."""
    found = snapshot(view.speed_table)
    changed = {} if found is None else found.changed
    return {
        day
        for day, published in known.items()
        if (at := changed.get(day)) is not None and newest.covers(at) and not published.cut.covers(at)
    }


def _closed_since(view: ViewHandle, known: Mapping[date, Published], newest: Cut) -> set[date]:
    """Return the days that the watermark has passed since they were published, for a view that closes partitions."""
    if not view.definition.closes:
        return set()
    now = watermark_of(view, newest)
    closed: set[date] = set()
    for cut in {str(published.cut): published.cut for published in known.values()}.values():
        days = [day for day, published in known.items() if published.cut == cut]
        closed.update(passed_partitions(view.definition, watermark_of(view, cut), now, days))
    return closed
