"""Migrate the readers of a view to another version: in steps, with checks between them and a rollback.

Each step is one commit of the view's route, which contains the migration's record. So the migration's state and the
readers' route can't disagree, and a killed run continues from the route. A step has been reached when the new version
covers what its readers had seen of the old one, so that they can all follow (ADR 0031). Its soak time starts then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from anabranch.certify.certificates import newest_sequence
from anabranch.change.migrate.migration_record import (
    STEPS,
    Migration,
    State,
    active_migration,
    majority_version,
    migration_of,
    not_moving,
    of_run,
    reversible_migration,
)
from anabranch.change.migrate.promotion_checks import (
    CheckOutcome,
    Expectations,
    days_to_build,
    failed_checks,
    not_ready,
    run_checks,
)
from anabranch.change.migrate.step_progress import StepProgress, forget, is_of_this_boot, observe, step_progress
from anabranch.core.clocks import Moment
from anabranch.core.errors import AnabranchError, BadInput, Conflict, TryAgain
from anabranch.core.settings import Settings
from anabranch.lake.cut import Cut
from anabranch.lake.layout import VersionRef
from anabranch.serve.routes import Route, covers, oldest_version, route_of, set_route
from anabranch.serve.served_versions import newest_speed
from anabranch.views import View

__all__ = [
    "STEPS",
    "Migration",
    "State",
    "active_migration",
    "advance",
    "check_start",
    "days_to_build",
    "halt",
    "majority_version",
    "migration_of",
    "of_run",
    "resume",
    "rollback",
    "skip_soak",
    "start",
]
UNCHECKED_SECONDS = 120.0
"""How long a check may be impossible to run before it counts as failed."""
_POLL_SECONDS = 0.5


def start(
    settings: Settings,
    old: View,
    new: View,
    *,
    by: str,
    why: str,
    steps: Sequence[int] = STEPS,
    soak_seconds: float = 600,
    promise: Expectations | None = None,
    run: str = "",
) -> Migration:
    """Start a migration that ``by`` has approved. No reader is moved yet: ``advance`` does that.

    Raises what ``check_start`` raises; BadInput CHECK_REFUSED, Conflict CHECKS_FAILED: nothing was changed.
    """
    number = check_start(settings, old, new, steps, soak_seconds)
    promise, soak, certified = promise or Expectations(), float(soak_seconds), newest_sequence(settings)
    migration = Migration(
        old.name, old.version, new.version, tuple(steps), soak, promise, run=run, begun=number + 1, certified=certified
    )
    failed = failed_checks(settings, old, new, migration.promise)
    if failed:
        raise not_ready(settings, old, new, failed)
    _commit(settings, migration, 0, by, why, after=number)
    return migration


def advance(settings: Settings, old: View, new: View, *, by: str) -> Migration:
    """Run the checks and take the next step; after the last one the migration is done.

    A failing check rolls back at once: all readers get the old version, the returned migration is ``rolled back``, and
    its route has the reason. A check that can't run for UNCHECKED_SECONDS counts as failed.

    Raises TryAgain READERS_FOLLOW while the new version doesn't cover yet what readers of the old one have seen,
    SOAKING while the newest step is too young, HALTED while a person has halted it (the checks still ran), or the error
    that keeps a check from running. Conflict NOT_MOVING, or ROUTE_MOVED when another change came first: nothing was
    done.
    """
    route, migration = active_migration(settings, old.name)
    progress = _update_progress(settings, route, migration)
    left = _remaining_soak(migration, progress)
    since = (migration.begun or route.number) if migration.share else None
    outcome = run_checks(
        settings, old, new, migration.promise, thorough=left <= 0, since=since, certified=migration.certified
    )
    failed = [*outcome.failed, *_overdue(settings, route, outcome)]
    if failed:
        back = replace(migration, state="rolled back", share=0, hastened=False)
        return _commit(settings, back, 0, by, f"a check failed: {'; '.join(failed)}", after=route.number)
    if outcome.not_run:
        raise outcome.not_run[0]
    if migration.state == "halted":
        raise TryAgain(
            "HALTED",
            f"{migration.view}: halted at {migration.share} % by {route.changed_by}: {route.why}",
            state="all checks pass",
            next_step=f"anabranch migrate resume {migration.view}",
        )
    if migration.share and progress.reached is None:
        raise TryAgain(
            "READERS_FOLLOW",
            f"{migration.view}: readers of v{old.version} have seen {progress.follow or 'a cut that is unknown'}, "
            f"v{new.version} doesn't cover it, or can't be read",
            state="they keep what they have seen until it does; all checks pass",
            next_step="wait; anabranch status shows how far the stream of the new version is",
            seconds=_POLL_SECONDS,
        )
    if left > 0:
        raise TryAgain(
            "SOAKING",
            f"{migration.view}: {migration.share} % have v{migration.new}, for {left:.0f} s more at least",
            state="all checks pass",
            next_step="advance then",
            seconds=left,
        )
    share = migration.next_share
    if share is None:
        done = replace(migration, state="done", hastened=False)
        return _commit(settings, done, 100, by, "soaked at 100 %", after=route.number)
    why = f"step {migration.steps.index(share) + 1} of {len(migration.steps)}"
    advanced = _commit(settings, replace(migration, share=share, hastened=False), share, by, why, after=route.number)
    _update_progress(settings, *active_migration(settings, old.name))
    return advanced


def _update_progress(settings: Settings, route: Route, migration: Migration) -> StepProgress:
    """Record whether the new version covers by now what any reader had seen of the old one when the route was set, and
    since when: after a restart of the machine, since the first look at it."""
    if not migration.share:
        return StepProgress()
    known = step_progress(settings, migration.view, route.number)
    follow = known.follow if known.follow is not None else _cut(VersionRef(settings, migration.view, migration.old))
    reached = known.reached if is_of_this_boot(known.reached) else None
    if reached is None and follow is not None:
        covered = _cut(VersionRef(settings, migration.view, migration.new))
        reached = Moment.now() if covered is not None and covers(covered, follow) else None
    return observe(settings, migration.view, route.number, follow=follow, reached=reached)


def _cut(ref: VersionRef) -> Cut | None:
    """Return the cut of a version's speed half; None if it can't be read, which says nothing about its cut."""
    try:
        return newest_speed(ref.settings, ref.name, ref.version)[1].newest.note.cut
    except AnabranchError:
        return None


def _overdue(settings: Settings, route: Route, outcome: CheckOutcome) -> list[str]:
    """Return the checks that couldn't run for UNCHECKED_SECONDS, as failures."""
    known = step_progress(settings, route.view, route.number)
    if not outcome.not_run:
        if known.unchecked is not None:
            observe(settings, route.view, route.number, unchecked=None)
        return []
    since = known.unchecked.age() if known.unchecked is not None else None
    if since is None:
        observe(settings, route.view, route.number, unchecked=Moment.now())
        return []
    if since < UNCHECKED_SECONDS:
        return []
    return [f"a check couldn't run for {since:.0f} s: {wait.what}" for wait in outcome.not_run]


def _remaining_soak(migration: Migration, progress: StepProgress) -> float:
    """Return the remaining soak time of the newest step in seconds; 0 before the first step. The soak time starts again
    after a restart of the machine, and on another machine."""
    if not migration.share or migration.hastened:
        return 0.0
    age = progress.reached.age() if progress.reached is not None else None
    return migration.soak_seconds - (age or 0.0)


def halt(settings: Settings, view: str, *, by: str, why: str, after: int | None = None) -> Migration:
    """Halt the migration: readers keep their versions, checks still run, and a failing one still rolls back. ``after``:
    only if this is still the route's number, as a person saw it. Raises Conflict NOT_MOVING, ROUTE_MOVED."""
    return _become(settings, view, by, why, after, ("halted", False))


def resume(settings: Settings, view: str, *, by: str, why: str, after: int | None = None) -> Migration:
    """Resume after a halt; the newest step's soak time starts again. Raises Conflict NOT_MOVING, ROUTE_MOVED."""
    return _become(settings, view, by, why, after, ("moving", False))


def skip_soak(settings: Settings, view: str, *, by: str, why: str, after: int | None = None) -> Migration:
    """Skip the rest of the newest step's soak time: the next ``advance`` takes the next step, if its checks pass. Also
    ends a halt. Raises Conflict NOT_MOVING, ROUTE_MOVED."""
    return _become(settings, view, by, why, after, ("moving", True))


def _become(settings: Settings, view: str, by: str, why: str, after: int | None, to: tuple[State, bool]) -> Migration:
    route, migration = active_migration(settings, view)
    changed, seen = replace(migration, state=to[0], hastened=to[1]), route.number if after is None else after
    return migration if changed == migration else _commit(settings, changed, changed.share, by, why, after=seen)


def rollback(settings: Settings, view: str, *, by: str, why: str) -> Migration:
    """Move all readers back to the old version; also possible after the migration is done, until readers are moved
    otherwise. A step, a halt or the like that comes first at the same moment is rolled back, too.

    Raises Conflict NOT_MOVING if there is no migration, or it was rolled back already; ROUTE_MOVED if another change
    came first."""
    moved: tuple[Migration, Conflict] | None = None
    while True:
        newest = reversible_migration(settings, view)
        back = replace(newest[1], state="rolled back", share=0, hastened=False) if newest else None
        if moved is not None and moved[0] != back:
            raise moved[1]
        if newest is None or back is None or newest[1].state == "rolled back":
            raise not_moving(view, newest)
        try:
            return _commit(settings, back, 0, by, why, after=newest[0].number)
        except Conflict as error:
            if error.code != "ROUTE_MOVED":
                raise
            moved = back, error


def _commit(settings: Settings, migration: Migration, share: int, by: str, why: str, after: int) -> Migration:
    shares = {migration.old: 100 - share, migration.new: share}
    route = set_route(settings, migration.view, shares, by=by, why=why, after=after, migration=migration.to_json())
    forget(settings, migration.view, route.number)
    return migration


def check_start(settings: Settings, old: View, new: View, steps: Sequence[int] = STEPS, soak: float = 0) -> int:
    """Check whether a migration may start, before anything is built for it, and return the number of the route that
    was checked (0: there is none). Raises BadInput VERSIONS_WRONG or STEPS_WRONG; Conflict MIGRATION_ACTIVE, or
    READERS_ELSEWHERE (some readers don't have the old version)."""
    if old.name != new.name or old.version == new.version:
        raise BadInput(
            "VERSIONS_WRONG",
            f"{old.name} v{old.version} to {new.name} v{new.version}",
            state="nothing was changed",
            next_step="give two versions of one view",
            field="to",
        )
    if list(steps) != sorted({*steps}) or not steps or steps[0] < 1 or steps[-1] != 100 or soak < 0:
        raise BadInput(
            "STEPS_WRONG",
            f"steps {', '.join(map(str, steps)) or 'none'}, soak time {soak:g} s",
            state="nothing was changed",
            next_step="steps increase and end with 100, like 1,5,25,50,100; the soak time is 0 or more",
            field="steps",
        )
    route = route_of(settings, old.name)  # once: what is judged is what the start is committed upon
    newest = Migration.from_json(route.migration) if route and route.migration else None
    if newest is not None and newest.active:
        raise Conflict(
            "MIGRATION_ACTIVE",
            f"{old.name}: a migration from v{newest.old} to v{newest.new} is active, at {newest.share} %",
            state="nothing was changed",
            next_step=f"wait until it ends, or anabranch migrate rollback {old.name}",
        )
    shares = dict(route.shares) if route else {oldest_version(settings, old.name): 100}
    if shares != {old.version: 100}:
        raise Conflict(
            "READERS_ELSEWHERE",
            f"{old.name}: not all readers have v{old.version}: {route or shares}",
            state="nothing was changed",
            next_step=f"migrate from the version that they have, or anabranch routes set {old.name} {old.version}=100",
        )
    return route.number if route else 0
