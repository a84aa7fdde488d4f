"""Which partitions late events touch, and which ones changed between two cuts: counted from landing, without Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date

from anabranch.events import Sources
from anabranch.landing.counts import EventCount
from anabranch.settings import Settings
from anabranch.tables import Cut
from anabranch.views.counting import count_for
from anabranch.views.definition import View
from anabranch.views.inputs import watermark_of
from anabranch.views.partitions import passed_partitions


def touched(
    settings: Settings, view: View, topics: Sources, partitions: Sequence[date], cut: Cut, other: Cut
) -> Mapping[date, EventCount]:
    """For each partition the events up to ``cut`` that its rows can depend on, and those between the two cuts."""
    return count_for(settings, view, topics, partitions, cut, other).by_partition


def passed(settings: Settings, view: View, topics: Sources, cut: Cut, other: Cut) -> set[date]:
    """The partitions of a view that closes whose time passed between the two cuts; none for every other view."""
    if not view.closes or cut.covers(other) == other.covers(cut):
        return set()
    earlier, later = (other, cut) if cut.covers(other) else (cut, other)
    return set(passed_partitions(view, *(watermark_of(settings, topics, at) for at in (earlier, later))))
