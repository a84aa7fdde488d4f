"""Which partitions late events touch, and which ones changed between two cuts: counted from landing, without Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date

from anabranch.events import Topic
from anabranch.landing.counts import EventCount, count_events
from anabranch.landing.watermark import watermark_at
from anabranch.settings import Settings
from anabranch.tables import Cut
from anabranch.tables.commits import open_table
from anabranch.tables.layout import landing_table
from anabranch.views.definition import View
from anabranch.views.inputs import needed_dates
from anabranch.views.partitions import passed_partitions


def touched(
    settings: Settings, view: View, topic: Topic, partitions: Sequence[date], cut: Cut, other: Cut
) -> Mapping[date, EventCount]:
    """For each partition the events up to ``cut`` that its rows can depend on, and those between the two cuts."""
    table = open_table(landing_table(settings, topic.name))
    if table is None or not partitions:
        return {day: EventCount() for day in partitions}
    low, high = sorted((cut.epoch(topic.name), other.epoch(topic.name)))
    counts = count_events(table, view.events, needed_dates(view, partitions), cut.epoch(topic.name), (low, high))
    return {
        day: sum((counts.get(d, EventCount()) for d in needed_dates(view, [day])), EventCount()) for day in partitions
    }


def passed(settings: Settings, view: View, topic: Topic, cut: Cut, other: Cut) -> set[date]:
    """The partitions of a view that closes whose time passed between the two cuts; none for every other view."""
    table = open_table(landing_table(settings, topic.name))
    epochs = sorted((cut.epoch(topic.name), other.epoch(topic.name)))
    if not view.closes or table is None or epochs[0] == epochs[1]:
        return set()
    return set(passed_partitions(view, *(watermark_at(table, topic, epoch) for epoch in epochs)))
