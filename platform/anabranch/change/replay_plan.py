"""Plan a replay: which rows it rebuilds, from how much of landing, and what stays unchanged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from functools import partial
from typing import Any

from anabranch.change.estimates import NEWEST, Estimate, Outcome, estimate
from anabranch.change.replay.landing_mirror import LandedCommit, LandedCommits
from anabranch.change.replay.rate_limit import Pace
from anabranch.change.replay.request import Source
from anabranch.change.replay.state import PUBLISHED, list_states
from anabranch.change.replay_request import ReplayParameters
from anabranch.compute.batch.manifest import days as each_day
from anabranch.compute.batch.manifest import days_in_words, days_text
from anabranch.compute.batch.rebuild import cut_at
from anabranch.core.errors import BadInput
from anabranch.core.settings import Settings
from anabranch.ingest.landing.table.event_counts import count_events, events_since
from anabranch.lake import open_table
from anabranch.lake.cut import Cut
from anabranch.lake.layout import landing_table
from anabranch.lake.log.delta_tables import delta_table
from anabranch.serve.routes import check_not_retired, share_of
from anabranch.views.model.handle import ViewHandle
from anabranch.views.retired_versions import retired_versions
from anabranch.views.selection.inputs import watermark_of
from anabranch.views.selection.partition_events import count_for
from anabranch.views.selection.partitions import later_partitions, reach, touched_partitions


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    """A replay as data. ``days``: those that are rebuilt; None for the whole view. ``cut``: how far landing is read; a
    whole replay continues until it has caught up with readers. ``records``: how many records of landing are read;
    ``events``: how many of them the rows need. ``readers``: the percentage of the view's readers with this version."""

    view: str
    version: int
    fingerprint: str
    cut: Cut
    until: Mapping[str, int] = field(hash=False)
    days: tuple[date, ...] | None
    records: int
    events: int
    partitions: int
    readers: int
    pace: Pace
    source: Source
    estimate: Estimate

    @property
    def what(self) -> str:
        return days_in_words(self.days)

    def to_json(self) -> dict[str, Any]:
        return {
            "view": self.view,
            "version": self.version,
            "fingerprint": self.fingerprint,
            "cut": str(self.cut),
            "until": ",".join(f"{topic}@{epoch}" for topic, epoch in sorted(self.until.items())),
            "days": days_text(self.days) if self.days is not None else "",
            "what": self.what,
            "records": self.records,
            "events": self.events,
            "partitions": self.partitions,
            "readers": self.readers,
            "share": self.pace.share,
            "speed": self.pace.speed,
            "source": self.source,
            "estimate": self.estimate.to_json(),
        }

    def to_text(self) -> str:
        speed = f"at most {self.pace.speed:,g} times real time" if self.pace.speed else "without a limit of speed"
        whole = self.days is None
        source = "landing" if self.source == "landing" else "the log (landing, where the log was deleted)"
        rows = "the speed half's rows" if whole else f"the speed half's rows of {self.partitions} days"
        state = "; the live stream then continues with the replay's state" if whole else ""
        return "\n".join(
            (
                f"{self.view} v{self.version}: {self.what}, replayed from {source} up to {self.cut}",
                f"reads {self.records:,} records, {self.events:,} of them events that its rows need",
                str(self.estimate),
                f"uses at most {self.pace.share:.0%} of the cores, {speed}",
                f"replaces {rows} in one commit when every certificate is equal, else nothing{state}",
                "the batch half, landing, the log, routes and all other versions stay as they are; nothing is sent",
                f"{self.readers} % of the view's readers get v{self.version}",
            )
        )


def make_replay_plan(view: ViewHandle, parameters: ReplayParameters) -> ReplayPlan:
    """Resolve the days and the cut, and count records and events. Doesn't use Spark; changes nothing.

    Raises BadInput, with ``field``: CUT_IN_FUTURE, VERSION_RETIRED, VIEW_WHOLE (a view without partitions has no days),
    DAY_OPEN (events of that day may still come, and its state isn't replaced), NOTHING_LANDED. TryAgain LANDING_EMPTY.
    """
    check_not_retired(view.name, [view.version], retired_versions(view.settings, view.name))
    cut = cut_at(view.settings, view.topics, parameters.until)
    if parameters.since:
        cut_at(view.settings, view.topics, parameters.since)  # raises for a cut that hasn't landed
    days = None if parameters.whole else _days(view, parameters, cut)
    if days is not None and view.definition.refresh == "state":
        _check_closed(view, days)
    records = sum(
        commit.rows for topic in view.topics.each for commit in _commits_up_to(view.settings, topic.name, cut)
    )
    table = open_table(view.speed_table)
    existing = len(table.partitions()) if table is not None and not view.definition.kappa else 0
    return ReplayPlan(
        view=view.name,
        version=view.version,
        fingerprint=view.definition.fingerprint,
        cut=cut,
        until={} if parameters.whole else {topic: position.epoch for topic, position in cut.positions.items()},
        days=days,
        records=records,
        events=_events(view, days, cut),
        partitions=existing if days is None else len(days),
        readers=share_of(view),
        pace=parameters.pace,
        source=parameters.source,
        estimate=_estimate(view, parameters.pace, days, existing, records),
    )


def _days(view: ViewHandle, parameters: ReplayParameters, cut: Cut) -> tuple[date, ...]:
    if view.definition.kappa:
        raise BadInput(
            "VIEW_WHOLE",
            f"parameter from: {view} has no days: each of its rows depends on all of history",
            state="nothing was started",
            next_step="omit from, to, since and until: the whole view is replayed",
            field="from",
        )
    days = tuple(each_day(*parameters.days) if parameters.days else _affected_days(view, parameters.since, cut))
    if not days:
        raise BadInput(
            "NOTHING_LANDED",
            f"parameter since: no event of {view.name} landed between these cuts",
            state="nothing was started",
            next_step="give cuts that are further apart",
            field="since",
        )
    return days


def _affected_days(view: ViewHandle, since: Mapping[str, int], cut: Cut) -> Sequence[date]:
    """Return the partitions that on-time events after ``since`` up to ``cut`` affect. A row of a table with history
    affects all later ones."""
    definition = view.definition
    new, landed = set[tuple[str, date]](), set[date]()
    for topic in view.topics.each:
        table = open_table(landing_table(view.settings, topic.name))
        types = [name for name in definition.events if name in topic.event_types]
        if table is not None:
            begin = partial(_constant, since.get(topic.name, 0))
            counts = events_since(table, types, begin, cut.epoch(topic.name))
            new |= {(count.type, count.day) for count in counts if count.on_time}
            own = [name for name in types if name not in definition.tables]
            landed |= set(count_events(table, own, None, cut.epoch(topic.name)))
    affected = touched_partitions(definition, {day for kind, day in new if kind not in definition.tables})
    history = {day for kind, day in new if kind in definition.tables}
    later = later_partitions(definition, min(history), landed) if history else []
    return sorted({*affected, *later})


def _constant(epoch: int, _: date) -> int:
    return epoch


def _check_closed(view: ViewHandle, days: Sequence[date]) -> None:
    """Raise DAY_OPEN for days that may still change: the live stream would write them again from its own state, which a
    replay of days doesn't replace."""
    watermark = watermark_of(view, cut_at(view.settings, view.topics))
    last = days[-1].toordinal() + reach(view.definition)[1] + 1
    if watermark is None or watermark < datetime.fromordinal(last).replace(tzinfo=UTC):
        raise BadInput(
            "DAY_OPEN",
            f"parameter to: events of {days[-1]} may still come and be on time: {view.name} keeps state for them",
            state="nothing was started",
            next_step=f"replay the whole view, or days that end before {watermark or 'the first event'}",
            field="to",
        )


def _events(view: ViewHandle, days: Sequence[date] | None, cut: Cut) -> int:
    if days is not None:
        return count_for(view, days, cut).read
    total = 0
    for topic in view.topics.each:
        types = [name for name in view.definition.events if name in topic.event_types]
        table = delta_table(landing_table(view.settings, topic.name))
        total += sum(c.events for c in count_events(table, types, None, cut.epoch(topic.name)).values())
    return total


def _commits_up_to(settings: Settings, topic: str, cut: Cut) -> Iterator[LandedCommit]:
    last = cut.epoch(topic)
    commits = LandedCommits(landing_table(settings, topic)).read_new()  # never all at once: there may be millions
    return (commit for commit in commits if commit.cut is not None and commit.cut.epoch(topic) <= last)


def _estimate(view: ViewHandle, pace: Pace, days: Sequence[date] | None, existing: int, records: int) -> Estimate:
    """Estimate from earlier published replays of the version at the same pace: at a tenth of the cores they take ten
    times as long as at all of them."""
    known = [state for state in list_states(view) if state.phase == PUBLISHED]
    same = [s for s in known if s.seconds > 0 and (s.share, s.speed) == (pace.share, pace.speed)][-NEWEST:]
    outcomes = [
        Outcome(
            state.run, max(state.partitions, 1), state.done, state.seconds, state.bytes, state.updated, state.estimated
        )
        for state in same
    ]
    asked = max(existing if days is None else len(days), 1)  # a view without days counts as one
    return estimate(outcomes, asked, records, named="replays of this version at this pace", read="records")
