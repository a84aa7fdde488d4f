"""Count the landed events that each partition of a view depends on, without Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date

from anabranch.contracts.model.topics import Sources
from anabranch.core.settings import Settings
from anabranch.ingest.landing.table.event_counts import EventCount, count_events
from anabranch.lake import open_table
from anabranch.lake.cut import Cut
from anabranch.lake.layout import landing_table
from anabranch.views.model.definition import View
from anabranch.views.selection.inputs import needed_dates

_NONE = EventCount()


@dataclass(frozen=True, slots=True)
class PartitionEvents:
    """``by_partition``: the events that a partition's rows can depend on. ``read``: the total, each event once."""

    by_partition: Mapping[date, EventCount] = field(hash=False)
    read: int


def count_for(
    settings: Settings, view: View, topics: Sources, partitions: Sequence[date], cut: Cut, other: Cut | None = None
) -> PartitionEvents:
    """Counts the events up to ``cut`` that rows of ``partitions`` can depend on, and those between it and ``other``."""
    days, totals = needed_dates(view, partitions), dict.fromkeys(partitions, _NONE)
    read = 0
    for topic in topics.each:
        table = open_table(landing_table(settings, topic.name))
        if table is None or not partitions:
            continue
        epoch = cut.epoch(topic.name)
        low, high = sorted((epoch, (other or cut).epoch(topic.name)))
        carried = [name for name in view.events if name in topic.event_types]
        events = count_events(table, [n for n in carried if n not in view.tables], days, epoch, (low, high))
        history = count_events(table, [n for n in carried if n in view.tables], None, epoch, (low, high))
        history = {day: count for day, count in history.items() if day <= days[-1]}
        for partition in partitions:
            reach = needed_dates(view, [partition])
            near = (events.get(day, _NONE) for day in reach)
            before = (count for day, count in history.items() if day <= reach[-1])
            totals[partition] += sum((*near, *before), _NONE)
        read += sum(count.events for count in (*events.values(), *history.values()))
    return PartitionEvents(totals, read)
