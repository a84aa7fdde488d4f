"""Count the landed events that each partition of a view depends on, and say which partitions a watermark has passed
between two cuts. Without Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime

from anabranch.ingest.landing.table.event_counts import EventCount, count_events
from anabranch.lake import open_table
from anabranch.lake.cut import Cut
from anabranch.lake.layout import landing_table
from anabranch.views.model.handle import ViewHandle
from anabranch.views.selection.inputs import needed_dates, watermark_of
from anabranch.views.selection.partitions import passed_partitions

_NONE = EventCount()


@dataclass(frozen=True, slots=True)
class PartitionEvents:
    """``by_partition``: the events that a partition's rows can depend on. ``read``: the total, each event once."""

    by_partition: Mapping[date, EventCount] = field(hash=False)
    read: int


def count_for(view: ViewHandle, partitions: Sequence[date], cut: Cut, other: Cut | None = None) -> PartitionEvents:
    """Counts the events up to ``cut`` that rows of ``partitions`` can depend on, and those between it and ``other``."""
    days, totals = needed_dates(view.definition, partitions), dict.fromkeys(partitions, _NONE)
    read = 0
    for topic in view.topics.each:
        table = open_table(landing_table(view.settings, topic.name))
        if table is None or not partitions:
            continue
        epoch = cut.epoch(topic.name)
        low, high = sorted((epoch, (other or cut).epoch(topic.name)))
        carried = [name for name in view.definition.events if name in topic.event_types]
        events = count_events(table, [n for n in carried if n not in view.definition.tables], days, epoch, (low, high))
        history = count_events(table, [n for n in carried if n in view.definition.tables], None, epoch, (low, high))
        history = {day: count for day, count in history.items() if day <= days[-1]}
        for partition in partitions:
            reach = needed_dates(view.definition, [partition])
            near = (events.get(day, _NONE) for day in reach)
            before = (count for day, count in history.items() if day <= reach[-1])
            totals[partition] += sum((*near, *before), _NONE)
        read += sum(count.events for count in (*events.values(), *history.values()))
    return PartitionEvents(totals, read)


def count_affected_events(
    view: ViewHandle, partitions: Sequence[date], cut: Cut, other: Cut
) -> Mapping[date, EventCount]:
    """Count, per partition, the events up to ``cut`` that its rows can depend on, and those between the two cuts."""
    return count_for(view, partitions, cut, other).by_partition


def closed_between(
    view: ViewHandle, partitions: Sequence[date], cut: Cut, other: Cut, watermark: datetime | None = None
) -> set[date]:
    """Those of ``partitions`` that the watermark passed between the two cuts. Always empty for views that don't close
    partitions.

    ``watermark``: the watermark at ``other``, if the stream there hasn't reached the cut's own watermark yet.
    """
    if not view.definition.closes or (cut == other and watermark is None):
        return set()
    times = (watermark_of(view, cut), watermark or watermark_of(view, other))
    before, after = sorted(times, key=lambda time: (time is not None, time or datetime.min.replace(tzinfo=UTC)))
    return set(passed_partitions(view.definition, before, after, partitions))
