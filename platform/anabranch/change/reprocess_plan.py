"""What a reprocess would do: which partitions, from how many events, at which cut. Made without Spark.

A plan only reads. It may be made as often as one likes, and says the same as long as its cut is the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any

from anabranch.change.estimates import Estimate, estimate, outcomes
from anabranch.change.reprocess_request import ReprocessRequest
from anabranch.compute.batch import Build, Published, publications
from anabranch.compute.batch.manifest import days_text, parse_days
from anabranch.compute.batch.missing_days import Missing, missing
from anabranch.compute.batch.publish import check_published, entries_of, from_entries
from anabranch.compute.batch.rebuild import cut_at
from anabranch.contracts import Sources
from anabranch.core.errors import BadDefinition, BadInput, Conflict
from anabranch.core.settings import Settings
from anabranch.ingest.landing.event_counts import landed_days
from anabranch.lake import Cut
from anabranch.lake.cut import parse_epochs
from anabranch.lake.layout import batch_table
from anabranch.serve.routes import check_not_retired, share_of
from anabranch.views.definition import View
from anabranch.views.partition_events import count_for
from anabranch.views.retired_versions import retired_versions


@dataclass(frozen=True, slots=True)
class Plan:
    """A reprocess as data.

    ``events`` and ``late`` are the numbers of valid (late) events up to ``cut`` that the rows of a partition are
    made from, lookback and lookahead included; ``read`` counts each event once. ``shown`` are those of the
    partitions that readers have a batch half of already, ``untouched`` is how many other partitions they have one of.
    ``readers``: how many percent of the view's readers get this version. ``inside``: whether some of the partitions lie
    between the first and the last day that has landed, or have events themselves. ``missing``: what made these days
    those of the plan, where nobody named them.
    """

    view: str
    version: int
    fingerprint: str
    cut: Cut
    partitions: tuple[date, ...]
    events: Mapping[date, int] = field(hash=False)
    late: Mapping[date, int] = field(hash=False)
    read: int
    shown: Mapping[date, Published] = field(hash=False)
    untouched: int
    readers: int
    inside: bool
    lookback: timedelta
    lookahead: timedelta
    estimate: Estimate | None
    missing: Missing | None = None

    @property
    def published(self) -> int:
        return len(self.shown)

    @property
    def empty(self) -> bool:
        """Whether there is nothing to do: no day that could be said to have no events, none published that would have
        to become empty."""
        return self.published == 0 and not self.inside

    @property
    def span(self) -> str:
        """For people: ``2013-01-01 to 2013-01-31 (31 days)``, or ``2 days between 2013-01-01 and 2013-01-31``."""
        if not self.partitions:
            return "no day"
        first, last = self.partitions[0], self.partitions[-1]
        if first == last:
            return f"{first}"
        if (last - first).days + 1 > len(self.partitions):
            return f"{len(self.partitions)} days between {first} and {last}"
        return f"{first} to {last} ({len(self.partitions)} days)"

    def to_json(self) -> dict[str, Any]:
        return {
            "view": self.view,
            "version": self.version,
            "fingerprint": self.fingerprint,
            "cut": str(self.cut),
            "from": self.partitions[0].isoformat() if self.partitions else None,
            "to": self.partitions[-1].isoformat() if self.partitions else None,
            "days": days_text(self.partitions),
            "span": self.span,
            "partitions": [
                {"partition": p.isoformat(), "events": self.events[p], "late": self.late[p]} for p in self.partitions
            ],
            "events": self.read,
            "late": sum(self.late.values()),
            "published": self.published,
            "shown": entries_of(self.shown),
            "untouched": self.untouched,
            "readers": self.readers,
            "estimate": self.estimate.to_json() if self.estimate else None,
            "lookback_hours": self.lookback / timedelta(hours=1),
            "lookahead_hours": self.lookahead / timedelta(hours=1),
            **({"late_missing": self.missing.late} if self.missing is not None else {}),
        }

    def to_text(self) -> str:
        """A table for the task's log."""
        if not self.partitions:
            return f"{self.view} v{self.version}: every day with events is published, and {self.missing}"
        head = f"{self.view} v{self.version}: {self.span} at {self.cut}, {self.read:,} events to read"
        rows = (f"{p.isoformat():<12}{self.events[p]:>10,}{self.late[p]:>10,}" for p in self.partitions)
        takes = f"takes {self.estimate or 'as long as it takes: no earlier run of this version to go by'}"
        stays = f"{_days(self.untouched, 'other published')}, the speed half, landing and every other view stay"
        replaced = f"replaces {_days(self.published, 'published')}; {stays} as they are"
        last = (takes, replaced, f"{self.readers} % of the view's readers get v{self.version}")
        why = [] if self.missing is None else [_why(self.missing)]
        return "\n".join((head, *why, f"{'partition':<12}{'events':>10}{'late':>10}", *rows, *last))


def make_plan(settings: Settings, view: View, topics: Sources, wish: ReprocessRequest) -> Plan:
    """Resolve the cut and count what the rebuild would read: one pass over a few columns of the days needed.

    BadInput CUT_IN_FUTURE, VERSION_RETIRED or NOTHING_LANDED, with ``field``; TryAgain LANDING_EMPTY before the first
    epoch.
    """
    if view.kappa:
        raise BadDefinition(
            "VIEW_KAPPA",
            f"{view.origin}: {view.name} v{view.version} has no time partition, so no batch half",
            next_step="it is rebuilt by replaying its stream",
        )
    check_not_retired(view.name, [view.version], retired_versions(settings, view.name))
    cut = cut_at(settings, topics, wish.epochs)
    found = missing(settings, view, cut) if wish.missing else None
    partitions = wish.partitions if found is None else tuple(each.day for each in found.days)
    counted = count_for(settings, view, topics, partitions, cut)
    span = None if counted.read else landed_days(settings, topics)
    published = publications(batch_table(settings, view.name, view.version))
    plan = Plan(
        view=view.name,
        version=view.version,
        fingerprint=view.fingerprint,
        cut=cut,
        partitions=partitions,
        events={p: count.events for p, count in counted.by_partition.items()},
        late={p: count.late for p, count in counted.by_partition.items()},
        read=counted.read,
        shown={day: published[day] for day in partitions if day in published},
        untouched=len(set(published) - set(partitions)),
        readers=share_of(settings, view.name, view.version),
        inside=counted.read > 0 or (span is not None and any(span[0] <= day <= span[1] for day in partitions)),
        lookback=view.lookback,
        lookahead=view.lookahead,
        estimate=estimate(outcomes(settings, view.name, view.version), counted.read),
        missing=found,
    )
    if plan.empty and wish.explicit:
        raise _nothing_landed(plan, span)
    return plan


def _why(missing: Missing) -> str:
    never = sum(each.at is None for each in missing.days)
    lacking = len(missing.days) - never
    and_published = f", and {_days(lacking, 'published')} lacking late events" if lacking else ""
    return f"{_days(never, 'never published')}{and_published}; {missing}"


def _days(count: int, kind: str) -> str:
    return f"{count} {kind} day" + ("" if count == 1 else "s")


def check_still_holds(view: View, fingerprint: str) -> None:
    """Conflict PLAN_OUTDATED when the definition that was planned (by its ``fingerprint``) isn't that of ``view``."""
    if fingerprint != view.fingerprint:
        raise Conflict(
            "PLAN_OUTDATED",
            f"{view.origin}: the definition of {view.name} v{view.version} has changed since the plan was made",
            state="nothing was rebuilt",
            next_step="put it back (another definition needs a new version), and clear the run from its plan on",
            changed="definition",
        )


def check_still_published(settings: Settings, planned: Mapping[str, Any]) -> None:
    """Conflict PLAN_OUTDATED when one of the days of a plan (``Plan.to_json``, with its ``run``) isn't published as it
    was then; BadInput VERSION_RETIRED. Asked before days are rebuilt; publishing asks once more, with its commit."""
    view, version = planned["view"], planned["version"]
    check_not_retired(view, [version], retired_versions(settings, view))
    days, shown = parse_days(planned["days"]), shown_in(planned)
    check_published(view, version, planned["run"], days, shown, publications(batch_table(settings, view, version)))


def shown_in(planned: Mapping[str, Any]) -> dict[date, Published]:
    """What readers had of the days of a plan (``Plan.to_json``). Conflict PLAN_OUTDATED: an older version of this code
    has made it, and it doesn't say."""
    if "shown" not in planned:
        raise Conflict(
            "PLAN_OUTDATED",
            f"the plan of {planned['view']} v{planned['version']} was made before an upgrade of the platform",
            state="nothing was published by this run",
            next_step="trigger it again, or clear it from its plan on",
            changed="plan",
        )
    return from_entries(planned["shown"])


def check_still_counted(
    settings: Settings, view: View, topics: Sources, partitions: Sequence[date], cut: str, counted: tuple[int, int]
) -> None:
    """Conflict PLAN_OUTDATED when landing doesn't hold the planned ``cut`` any more, or other events up to it than were
    ``counted`` (events to read; late ones, by partition). What has landed behind the cut is no change."""
    try:
        found = count_for(settings, view, topics, partitions, cut_at(settings, topics, parse_epochs(cut)))
    except BadInput as refused:
        if refused.code != "CUT_IN_FUTURE":
            raise
        raise _landing_changed(view, f"{refused.what} any more", cut) from refused
    now = found.read, sum(count.late for count in found.by_partition.values())
    if now != counted:
        texts = ["{:,} events ({:,} late)".format(*each) for each in (counted, now)]
        raise _landing_changed(view, f"{texts[0]} up to {cut} were planned, and landing holds {texts[1]} now", cut)


def check_built(build: Build, planned: Mapping[str, Any]) -> None:
    """Conflict PLAN_OUTDATED when the run's build isn't what was planned."""
    made = {"fingerprint": build.fingerprint, "cut": str(build.cut), "days": days_text(build.partitions)}
    other = [name for name, value in made.items() if value != planned[name]]
    if other:
        raise Conflict(
            "PLAN_OUTDATED",
            f"{build.view} v{build.version}: run {build.run} has built "
            + ", ".join(f"{name} {made[name]}, planned was {planned[name]}" for name in other),
            state="nothing was published",
            next_step="trigger the run again: it is planned anew",
            changed=other[0],
        )


def _landing_changed(view: View, what: str, cut: str) -> Conflict:
    return Conflict(
        "PLAN_OUTDATED",
        f"{view.name} v{view.version}: {what}",
        state="nothing was rebuilt",
        next_step="who has changed landing's table? (anabranch doctor); then trigger the run again: it is planned anew",
        changed="landing",
        cut=cut,
    )


def _nothing_landed(plan: Plan, landed: tuple[date, date] | None) -> BadInput:
    holds = "events of {} to {}".format(*landed) if landed else "no event"
    return BadInput(
        "NOTHING_LANDED",
        f"parameter from: {plan.view} has no event in {plan.span} at {plan.cut}",
        state="nothing was started",
        next_step=f"landing holds {holds}",
        field="from",
    )
