"""Which partitions late events touch, and which ones changed between two cuts: counted from landing, without Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

import pyarrow as pa
import pyarrow.compute as pc

from anabranch.events import Topic
from anabranch.landing.schema import PARTITION as EVENT_DATE
from anabranch.landing.schema import VALID
from anabranch.settings import Settings
from anabranch.tables import Cut
from anabranch.tables.commits import open_table
from anabranch.tables.layout import landing_table
from anabranch.views.definition import View
from anabranch.views.inputs import needed_dates


@dataclass(frozen=True, slots=True)
class Touched:
    """The events that rows of one partition can depend on. ``between``: those after one cut and not the other."""

    late: int = 0
    between: int = 0


def touched(
    settings: Settings, view: View, topic: Topic, partitions: Sequence[date], cut: Cut, other: Cut
) -> Mapping[date, Touched]:
    """For each partition its late events up to ``cut``, and every event that lies between the two cuts."""
    low, high = sorted((cut.epoch(topic.name), other.epoch(topic.name)))
    dates = needed_dates(view, partitions)
    table = open_table(landing_table(settings, topic.name))
    if table is None or not dates:
        return {day: Touched() for day in partitions}
    landed = table.to_pyarrow_dataset(file_pruning_predicate=[(EVENT_DATE, "in", dates)])
    chosen = (
        (pc.field("decision") == VALID) & pc.field("type").isin(list(view.events)) & (pc.field("epoch") <= high)
    ) & (pc.field("late") | (pc.field("epoch") > low))
    rows = landed.to_table(columns=[EVENT_DATE, "late", "epoch"], filter=chosen)
    late = _by_date(rows.filter(pc.and_(rows["late"], pc.less_equal(rows["epoch"], cut.epoch(topic.name)))))
    between = _by_date(rows.filter(pc.greater(rows["epoch"], low)))
    return {day: Touched(_total(late, view, day), _total(between, view, day)) for day in partitions}


def _by_date(rows: pa.Table) -> dict[date, int]:
    counted = rows.group_by(EVENT_DATE).aggregate([([], "count_all")])
    return dict(zip(counted[EVENT_DATE].to_pylist(), counted["count_all"].to_pylist(), strict=True))


def _total(counts: Mapping[date, int], view: View, partition: date) -> int:
    return sum(counts.get(day, 0) for day in needed_dates(view, [partition]))
