"""Which published days of a view don't hold all that has landed for them: what a repair rebuilds.

Nobody marks a day. What landed stands in landing with its epoch, and what was published in the batch table's newest
commit with its cut: a day is dirty as long as an event that its rows can depend on lies between the two. So no mark can
be lost, and none is left over: a repair that publishes a day at its own cut cleans it up to there and no further.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from anabranch.compute.batch import publications
from anabranch.compute.batch.publish import Published
from anabranch.compute.batch.rebuild import cut_at
from anabranch.contracts import Sources, Topic
from anabranch.core.settings import Settings
from anabranch.ingest.landing.event_counts import events_since
from anabranch.lake import Cut
from anabranch.lake.commits import open_table
from anabranch.lake.layout import batch_table, landing_table
from anabranch.views.definition import View
from anabranch.views.inputs import watermark_of
from anabranch.views.partitions import passed_partitions, reach, touched_partitions

Touched = Callable[[date], Sequence[date]]
"""The published days that events of a day belong into."""


@dataclass(frozen=True, slots=True)
class Dirty:
    """A published day, and the events that landed since it was published ``at`` a cut: all, and the late ones. Both may
    be 0 for a view that closes: then the watermark has passed the day since."""

    partition: date
    at: Cut
    events: int
    late: int


def dirty_partitions(settings: Settings, view: View, topics: Sources, cut: Cut | None = None) -> list[Dirty]:
    """The published days of ``view`` that ``cut`` (the newest landed, when left out) has more events for, in order.

    Days that nobody has published are not among them. Without Spark: only files that landed after the cuts of the
    days that they touch are opened.
    """
    known = publications(batch_table(settings, view.name, view.version))
    if not known:
        return []
    newest = cut or cut_at(settings, topics)
    found: dict[date, list[int]] = {day: [0, 0] for day in _passed(settings, view, topics, known, newest)}
    for topic in topics.each:
        table = open_table(landing_table(settings, topic.name))
        if table is None:
            continue
        epochs = {day: published.cut.epoch(topic.name) for day, published in known.items()}
        for days_of, types in _inputs(view, topic, sorted(known)):
            for news in events_since(table, types, _oldest(epochs, days_of), newest.epoch(topic.name)):
                for day in days_of(news.day):
                    if epochs[day] < news.epoch:
                        counts = found.setdefault(day, [0, 0])
                        counts[0] += news.events
                        counts[1] += news.late
    return [Dirty(day, known[day].cut, *found[day]) for day in sorted(found)]


def _inputs(view: View, topic: Topic, published: Sequence[date]) -> list[tuple[Touched, list[str]]]:
    """The types of ``topic`` that ``view`` reads, by which published days their events of one day belong into."""

    def around(day: date) -> list[date]:
        return [each for each in touched_partitions(view, [day]) if each in known]

    def from_then_on(day: date) -> Sequence[date]:
        return published[bisect_left(published, date.fromordinal(day.toordinal() - reach(view)[1])) :]

    known, types = set(published), [name for name in view.events if name in topic.event_types]
    groups: list[tuple[Touched, list[str]]] = [
        (around, [name for name in types if name not in view.tables]),
        (from_then_on, [name for name in types if name in view.tables]),
    ]
    return [group for group in groups if group[1]]


def _oldest(epochs: Mapping[date, int], days_of: Touched) -> Callable[[date], int | None]:
    """By the day of an event: the oldest epoch that a day which it touches is published at; None if it touches none."""
    return lambda day: min((epochs[each] for each in days_of(day)), default=None)


def _passed(settings: Settings, view: View, topics: Sources, known: Mapping[date, Published], newest: Cut) -> set[date]:
    """Of a view that closes: the days that the watermark has passed since they were published."""
    if not view.closes:
        return set()
    now = watermark_of(settings, view, topics, newest)
    found: set[date] = set()
    for cut in {str(published.cut): published.cut for published in known.values()}.values():
        then = watermark_of(settings, view, topics, cut)
        if then == now:
            continue
        moved = set(passed_partitions(view, then, now))
        found |= {day for day, published in known.items() if published.cut == cut and day in moved}
    return found
