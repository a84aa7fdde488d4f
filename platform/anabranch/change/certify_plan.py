"""Plan the certification of a live table: what is compared, and from how much of landing it is computed.

Making a plan only reads, without Spark. The cut isn't fixed here: the stream goes on, and the table is compared at the
newest commit that it has when Spark begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from functools import reduce
from typing import Any

from anabranch.certify.comparison_inputs import SpeedState, speed_state
from anabranch.change.estimates import Estimate, estimate, outcomes
from anabranch.compute.batch.manifest import days_in_words, days_text
from anabranch.contracts import Topic
from anabranch.core.errors import BadInput
from anabranch.core.text.quantities import counted
from anabranch.ingest.landing.table.event_counts import EventCount, count_events, days_of_files
from anabranch.lake import open_table
from anabranch.lake.cut import Cut
from anabranch.lake.layout import landing_table
from anabranch.serve.routes import check_not_retired
from anabranch.views import View
from anabranch.views.model.definition import PARTITION_DATE
from anabranch.views.model.handle import ViewHandle
from anabranch.views.retired_versions import retired_versions
from anabranch.views.selection.partition_events import count_for
from anabranch.views.selection.partitions import touched_partitions

NAMED = "certifications of this version"


@dataclass(frozen=True, slots=True)
class CertifyPlan:
    """A certification as data. ``cut``: that of the live table now. ``days``: those that are compared; None for a kappa
    view, which is compared as a whole. ``events``: how many landed events are read, of the days ``first`` to ``last``
    (None: there is none). ``unread``: loaded events that no row holds before a replay. ``estimate``: only of a whole
    view."""

    view: str
    version: int
    fingerprint: str
    cut: Cut
    days: tuple[date, ...] | None
    events: int
    first: date | None
    last: date | None
    unread: int
    estimate: Estimate | None

    @property
    def what(self) -> str:
        return days_in_words(self.days)

    def to_json(self) -> dict[str, Any]:
        return {
            "view": self.view,
            "version": self.version,
            "fingerprint": self.fingerprint,
            "cut": str(self.cut),
            "days": None if self.days is None else days_text(self.days),
            "what": self.what,
            "events": self.events,
            "first": self.first and f"{self.first}",
            "last": self.last and f"{self.last}",
            "unread": self.unread,
            "estimate": self.estimate.to_json() if self.estimate else None,
        }

    def to_text(self) -> str:
        between = f" of {self.first} to {self.last}" if self.first else ""
        read = f"the function runs over {counted(self.events, 'landed event')}{between}"
        if self.days is None:
            read += ": all since the first epoch, since a row may need any of them. Landing keeps them for ever"
        lines = [
            f"{self.view} v{self.version}: {self.what}, at the newest commit of its live table, now {self.cut}",
            read,
            *([str(self.estimate)] if self.estimate else []),
            "writes certificates and a verdict, nothing else; the stream goes on meanwhile",
        ]
        if self.unread:
            loaded = counted(self.unread, "loaded event")
            replay = f"anabranch replay start {self.view} --version {self.version}"
            lines.append(f"{loaded} not compared: in no row before {replay}")
        return "\n".join(lines)


def make_certify_plan(view: ViewHandle, days: Sequence[date] | None = None) -> CertifyPlan:
    """Find the days that have rows or events (of ``days``, unless None), and count the events to read.

    Raises BadInput, with ``field``: VIEW_WHOLE (a kappa view has no days), NOTHING_LANDED (none of the days has rows or
    events), VERSION_RETIRED. TryAgain VIEW_NOT_READY before the stream's first commit; Conflict DEFINITION_CHANGED.
    """
    check_not_retired(view.name, [view.version], retired_versions(view.settings, view.name))
    if view.definition.kappa:
        if days is not None:
            raise _no_days(view.definition)
        return _whole(view, speed_state(view))
    state = speed_state(view)
    known = _known_days(view, state)
    chosen = tuple(day for day in known if days is None or day in days)
    if not chosen:
        raise _nothing_landed(view.definition, known)
    events = count_for(view, chosen, state.cut).read
    return CertifyPlan(
        view.name, view.version, view.definition.fingerprint, state.cut, chosen, events, chosen[0], chosen[-1], 0, None
    )


def _whole(view: ViewHandle, state: SpeedState) -> CertifyPlan:
    by_day = [_counts(view, topic, state) for topic in view.topics.each]
    days = sorted({day for counts, _ in by_day for day in counts})
    read = sum(unloaded + loaded for counts, _ in by_day for unloaded, loaded in counts.values())
    expected = estimate(outcomes(view), 1, read, named=NAMED)
    first, last = (days[0], days[-1]) if days else (None, None)
    unread = sum(left for _, left in by_day)
    return CertifyPlan(
        view.name, view.version, view.definition.fingerprint, state.cut, None, read, first, last, unread, expected
    )


def _counts(view: ViewHandle, topic: Topic, state: SpeedState) -> tuple[dict[date, tuple[int, int]], int]:
    """The events from the log and the loaded events of each day that the view's rows at ``state`` hold; and how many
    loaded ones they don't."""
    table = open_table(landing_table(view.settings, topic.name))
    types = [name for name in view.definition.events if name in topic.event_types]
    if table is None:
        return {}, 0
    landed = count_events(table, types, None, state.cut.epoch(topic.name))
    held = count_events(table, types, None, state.loaded.get(topic.name, 0)) if state.loaded else {}
    counts = {day: (count.events - count.loaded, held.get(day, EventCount()).loaded) for day, count in landed.items()}
    every = reduce(lambda left, right: left + right, landed.values(), EventCount())
    read = {day: numbers for day, numbers in counts.items() if any(numbers)}
    return read, every.loaded - sum(loaded for _, loaded in counts.values())


def _known_days(view: ViewHandle, state: SpeedState) -> list[date]:
    """The partitions that have rows in the live table, or that landed events affect: also those that should be
    empty."""
    table = open_table(state.uri)
    existing = {partition[PARTITION_DATE] for partition in table.partitions()} if table is not None else set()
    rows = {day if isinstance(day, date) else date.fromisoformat(str(day)) for day in existing if day}
    events = set(view.definition.events) - set(view.definition.tables)
    carrying = [topic.name for topic in view.topics.each if events & set(topic.event_types)]
    tables = [open_table(landing_table(view.settings, topic)) for topic in carrying]
    landed = set[date]().union(*(days_of_files(each) for each in tables if each is not None))
    return sorted(rows | set(touched_partitions(view.definition, landed)))


def _no_days(view: View) -> BadInput:
    return BadInput(
        "VIEW_WHOLE",
        f"parameter days: {view.name} v{view.version} has no days: each of its rows may depend on all of history",
        state="nothing was compared",
        next_step="omit days: the whole view is compared",
        field="days",
    )


def _nothing_landed(view: View, known: Sequence[date]) -> BadInput:
    available = f"choose from {known[0]} to {known[-1]}" if known else "anabranch status shows what has landed"
    return BadInput(
        "NOTHING_LANDED",
        f"parameter days: {view.name} v{view.version} has neither rows nor events on these days",
        state="nothing was compared",
        next_step=available,
        field="days",
    )
