"""Which partitions late events touch, and which ones changed between two cuts: counted from landing, without Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

import pyarrow as pa
from deltalake import QueryBuilder

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
    table = open_table(landing_table(settings, topic.name))
    if table is None or not partitions:
        return {day: Touched() for day in partitions}
    # Not through to_pyarrow_dataset: a process that has used it sometimes aborts when it exits.
    rows = (
        QueryBuilder()
        .register("landed", table)
        .execute(_sql(view, needed_dates(view, partitions), cut.epoch(topic.name), low, high))
    )
    counts = {row["day"]: row for row in pa.table(rows.read_all()).to_pylist()}
    late = {day: int(row["late_events"] or 0) for day, row in counts.items()}
    between = {day: int(row["between_events"] or 0) for day, row in counts.items()}
    return {day: Touched(_total(late, view, day), _total(between, view, day)) for day in partitions}


def _sql(view: View, dates: Sequence[date], epoch: int, low: int, high: int) -> str:
    """Names of event types are checked by their contracts; everything else is a number or a date."""
    types = ", ".join(f"'{name}'" for name in view.events)
    days = ", ".join(f"date '{day}'" for day in dates)
    return (
        f"select {EVENT_DATE} as day, sum(case when late and epoch <= {epoch} then 1 else 0 end) as late_events, "  # noqa: S608
        f"sum(case when epoch > {low} then 1 else 0 end) as between_events from landed "
        f"where decision = '{VALID}' and type in ({types}) and epoch <= {high} and (late or epoch > {low}) "
        f"and {EVENT_DATE} in ({days}) group by {EVENT_DATE}"
    )


def _total(counts: Mapping[date, int], view: View, partition: date) -> int:
    return sum(counts.get(day, 0) for day in needed_dates(view, [partition]))
