"""Partitions affected by late events, and partitions changed between two cuts. Counted from landing, without Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime

from anabranch.ingest.landing.table.event_counts import EventCount
from anabranch.lake.cut import Cut
from anabranch.views.model.handle import ViewHandle
from anabranch.views.selection.inputs import watermark_of
from anabranch.views.selection.partition_events import count_for
from anabranch.views.selection.partitions import passed_partitions


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
