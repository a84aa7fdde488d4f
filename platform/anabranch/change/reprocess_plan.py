"""Plan a reprocess: which partitions, from how many events, at which cut. Doesn't use Spark.

Making a plan only reads. It can be repeated, and gives the same result for the same cut.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any

from anabranch.change.estimates import Estimate, estimate, outcomes
from anabranch.change.reprocess_request import ReprocessRequest
from anabranch.compute.batch.manifest import Build, days_text, parse_days
from anabranch.compute.batch.missing_days import Missing, missing
from anabranch.compute.batch.publish import Published, check_published, entries_of, from_entries, publications
from anabranch.compute.batch.rebuild import cut_at
from anabranch.core.errors import BadDefinition, BadInput, Conflict
from anabranch.core.settings import Settings
from anabranch.core.text.quantities import counted
from anabranch.ingest.landing.table.event_counts import landed_days
from anabranch.lake.cut import Cut, parse_epochs
from anabranch.lake.layout import VersionRef
from anabranch.serve.routes import check_not_retired, share_of
from anabranch.views import View
from anabranch.views.model.handle import ViewHandle
from anabranch.views.retired_versions import retired_versions
from anabranch.views.selection.partition_events import count_for


@dataclass(frozen=True, slots=True)
class Plan:
    """A reprocess as data.

    ``events``: per partition, the events up to ``cut`` that its rows are computed from, including lookback and
    lookahead; ``late`` and ``loaded``: those of them that are late, or from files; ``read`` counts each event once.
    ``shown``: those of the partitions that are published already; ``untouched``: how many other partitions are
    published. ``readers``: the percentage of the view's readers with this version. ``inside``: whether some of the
    partitions have events, or lie between the first and the last landed day. ``missing``: the missing days, if nobody
    gave days.
    """

    view: str
    version: int
    fingerprint: str
    cut: Cut
    partitions: tuple[date, ...]
    events: Mapping[date, int] = field(hash=False)
    late: Mapping[date, int] = field(hash=False)
    loaded: Mapping[date, int] = field(hash=False)
    read: int
    shown: Mapping[date, Published] = field(hash=False)
    untouched: int
    readers: int
    inside: bool
    lookback: timedelta
    lookahead: timedelta
    estimate: Estimate
    missing: Missing | None = None

    @property
    def published(self) -> int:
        return len(self.shown)

    @property
    def empty(self) -> bool:
        """Whether there is nothing to do: no partition has events or lies within the landed days, and none is
        published that would have to become empty."""
        return self.published == 0 and not self.inside

    @property
    def span(self) -> str:
        """The days as text: ``2013-01-01 to 2013-01-31 (31 days)``, or ``2 days between 2013-01-01 and 2013-01-31``."""
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
            **({"loaded": sum(self.loaded.values())} if any(self.loaded.values()) else {}),
            "published": self.published,
            "shown": entries_of(self.shown),
            "untouched": self.untouched,
            "readers": self.readers,
            "estimate": self.estimate.to_json(),
            "lookback_hours": self.lookback / timedelta(hours=1),
            "lookahead_hours": self.lookahead / timedelta(hours=1),
            **({"late_missing": self.missing.late} if self.missing is not None else {}),
        }

    def to_text(self) -> str:
        """Return a table for the task's log."""
        if not self.partitions:
            return f"{self.view} v{self.version}: every day with events is published, and {self.missing}"
        head = f"{self.view} v{self.version}: {self.span} at {self.cut}, {self.read:,} events to read"
        numbers = {"events": self.events, "late": self.late}
        numbers |= {"loaded": self.loaded} if any(self.loaded.values()) else {}
        rows = (f"{p.isoformat():<12}{''.join(f'{n[p]:>10,}' for n in numbers.values())}" for p in self.partitions)
        stays = f"{counted(self.untouched, 'other published day')}, the speed half, landing and all other views stay"
        replaced = f"replaces {counted(self.published, 'published day')}; {stays} as they are"
        last = (str(self.estimate), replaced, f"{self.readers} % of the view's readers get v{self.version}")
        why = [] if self.missing is None else [_why(self.missing)]
        titles = f"{'partition':<12}{''.join(f'{title:>10}' for title in numbers)}"
        return "\n".join((head, *why, titles, *rows, *last))


def make_plan(view: ViewHandle, request: ReprocessRequest) -> Plan:
    """Resolve the cut and count what the rebuild would read, in one pass over a few columns of the needed days.

    Raises BadInput CUT_IN_FUTURE, VERSION_RETIRED or NOTHING_LANDED, with ``field``; TryAgain LANDING_EMPTY before the
    first epoch; BadDefinition VIEW_KAPPA.
    """
    if view.definition.kappa:
        raise BadDefinition(
            "VIEW_KAPPA",
            f"{view.definition.origin}: {view} has no time partition, so it has no batch half",
            next_step=f"anabranch certify {view.name} --version {view.version} compares its rows, "
            "anabranch replay start repairs them",
        )
    check_not_retired(view.name, [view.version], retired_versions(view.settings, view.name))
    cut = cut_at(view.settings, view.topics, request.epochs)
    found = missing(view.settings, view.definition, cut) if request.missing else None
    partitions = request.partitions if found is None else tuple(each.day for each in found.days)
    counted = count_for(view, partitions, cut)
    span = None if counted.read else landed_days(view.settings, view.topics)
    published = publications(view.batch_table)
    plan = Plan(
        view=view.name,
        version=view.version,
        fingerprint=view.definition.fingerprint,
        cut=cut,
        partitions=partitions,
        events={p: count.events for p, count in counted.by_partition.items()},
        late={p: count.late for p, count in counted.by_partition.items()},
        loaded={p: count.loaded for p, count in counted.by_partition.items()},
        read=counted.read,
        shown={day: published[day] for day in partitions if day in published},
        untouched=len(set(published) - set(partitions)),
        readers=share_of(view),
        inside=counted.read > 0 or (span is not None and any(span[0] <= day <= span[1] for day in partitions)),
        lookback=view.definition.lookback,
        lookahead=view.definition.lookahead,
        estimate=estimate(outcomes(view), len(partitions), counted.read),
        missing=found,
    )
    if plan.empty and request.explicit:
        raise _nothing_landed(plan, span)
    return plan


def _why(missing: Missing) -> str:
    never = sum(each.at is None for each in missing.days)
    incomplete = len(missing.days) - never
    and_published = f", and {counted(incomplete, 'published day')} without all late events" if incomplete else ""
    return f"{counted(never, 'never published day')}{and_published}; {missing}"


def check_still_holds(view: View, fingerprint: str) -> None:
    """Raise Conflict PLAN_OUTDATED if the planned definition (by its ``fingerprint``) isn't that of ``view``."""
    if fingerprint != view.fingerprint:
        raise Conflict(
            "PLAN_OUTDATED",
            f"{view.origin}: the definition of {view.name} v{view.version} has changed since the plan was made",
            state="nothing was rebuilt",
            next_step="restore it (a changed definition needs a new version), and clear the run from its plan on",
            changed="definition",
        )


def check_still_published(settings: Settings, planned: Mapping[str, Any]) -> None:
    """Raise Conflict PLAN_OUTDATED if a day of a plan (``Plan.to_json``, with its ``run``) has been published since;
    BadInput VERSION_RETIRED. Called before days are rebuilt; publishing checks again, atomically with its commit."""
    view, version = planned["view"], planned["version"]
    check_not_retired(view, [version], retired_versions(settings, view))
    days, before = parse_days(planned["days"]), published_in_plan(planned)
    check_published(
        view, version, planned["run"], days, before, publications(VersionRef(settings, view, version).batch_table)
    )


def published_in_plan(planned: Mapping[str, Any]) -> dict[date, Published]:
    """Return which days of a plan (``Plan.to_json``) were published when it was made. Raises Conflict PLAN_OUTDATED if
    an older version of this code made the plan, without this information."""
    if "shown" not in planned:
        raise Conflict(
            "PLAN_OUTDATED",
            f"the plan of {planned['view']} v{planned['version']} was made before an upgrade of the platform",
            state="nothing was published by this run",
            next_step="trigger the run again, or clear it from its plan on",
            changed="plan",
        )
    return from_entries(planned["shown"])


def check_still_counted(view: ViewHandle, partitions: Sequence[date], cut: str, counted: tuple[int, int]) -> None:
    """Raise Conflict PLAN_OUTDATED if landing no longer has the planned ``cut``, or has other events up to it than were
    ``counted`` (events to read, late events). Events that landed after the cut don't matter."""
    try:
        current = count_for(view, partitions, cut_at(view.settings, view.topics, parse_epochs(cut)))
    except BadInput as error:
        if error.code != "CUT_IN_FUTURE":
            raise
        raise _landing_changed(view.definition, f"{error.what} any more", cut) from error
    now = current.read, sum(count.late for count in current.by_partition.values())
    if now != counted:
        texts = ["{:,} events ({:,} late)".format(*each) for each in (counted, now)]
        raise _landing_changed(
            view.definition, f"{texts[0]} up to {cut} were planned, but landing has {texts[1]} now", cut
        )


def check_built(build: Build, planned: Mapping[str, Any]) -> None:
    """Raise Conflict PLAN_OUTDATED if the run's build isn't what was planned."""
    built = {"fingerprint": build.fingerprint, "cut": str(build.cut), "days": days_text(build.partitions)}
    different = [name for name, value in built.items() if value != planned[name]]
    if different:
        raise Conflict(
            "PLAN_OUTDATED",
            f"{build.view} v{build.version}: run {build.run} has built "
            + ", ".join(f"{name} {built[name]}, but {planned[name]} was planned" for name in different),
            state="nothing was published",
            next_step="trigger the run again, so that it makes a new plan",
            changed=different[0],
        )


def _landing_changed(view: View, what: str, cut: str) -> Conflict:
    return Conflict(
        "PLAN_OUTDATED",
        f"{view.name} v{view.version}: {what}",
        state="nothing was rebuilt",
        next_step="find out what changed landing's table (anabranch doctor), then trigger the run again",
        changed="landing",
        cut=cut,
    )


def _nothing_landed(plan: Plan, landed: tuple[date, date] | None) -> BadInput:
    available = "events of {} to {}".format(*landed) if landed else "no event"
    return BadInput(
        "NOTHING_LANDED",
        f"parameter from: {plan.view} has no event in {plan.span} at {plan.cut}",
        state="nothing was started",
        next_step=f"choose other days: landing has {available}",
        field="from",
    )
