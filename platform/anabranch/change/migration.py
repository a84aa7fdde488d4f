"""Moving the readers of a view to its next version, step by step, with checks between the steps and a way back.

Each step is a commit of the view's route and says what the migration is about, so where it stands is never another
thing than where readers are: whoever is killed in between finds it there. A step is done when every reader that it
moved could follow: the new version covers what they had seen of the old one (ADR 0031). Only then it begins to soak.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date

from anabranch.certify.certificates import newest_certificates
from anabranch.change.migration_record import (
    STEPS,
    Migration,
    State,
    active_migration,
    majority_version,
    migration_of,
    not_moving,
    of_run,
)
from anabranch.change.promotion_checks import Checked, Expectations, checked, failed_checks
from anabranch.change.step_progress import StepProgress, forget, observe, step_progress
from anabranch.compute.batch import publications
from anabranch.core.clocks import Moment
from anabranch.core.errors import AnabranchError, BadInput, Conflict, TryAgain
from anabranch.core.settings import Settings
from anabranch.lake import Cut
from anabranch.lake.layout import batch_table
from anabranch.serve.routes import Route, covers, oldest_version, route_of, set_route
from anabranch.serve.served_versions import newest_speed
from anabranch.views.definition import View

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
"""For so long a check may be impossible to make; then it has failed."""
_LOOK_SECONDS = 0.5


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
    """Write down that ``by`` has approved it. Nobody is moved yet: ``advance`` does that.

    What ``check_start`` raises; BadInput CHECK_REFUSED, Conflict CHECKS_FAILED: nothing was changed.
    """
    check_start(settings, old, new, steps, soak_seconds)
    before = route_of(settings, old.name)
    soak, number = float(soak_seconds), before.number if before else 0
    said = promise or Expectations()
    made = Migration(old.name, old.version, new.version, tuple(steps), soak, said, run=run, begun=number + 1)
    wrong = failed_checks(settings, old, new, made.promise)
    if wrong:
        raise Conflict(
            "CHECKS_FAILED",
            f"{old.name} v{new.version} can't take readers: {'; '.join(wrong)}",
            state="nothing was changed; all readers have the old version",
            next_step="mend it, or say with changed columns what is meant to differ",
            failed=tuple(wrong),
        )
    _commit(settings, made, 0, by, why, after=number)
    return made


def advance(settings: Settings, old: View, new: View, *, by: str) -> Migration:
    """Check, and go one step further; behind the last one the migration is done. A check that fails leads all readers
    back to the old version, at once: the migration that is returned is ``rolled back`` then, and its route says why. So
    does one that can't be made for UNCHECKED_SECONDS.

    TryAgain READERS_FOLLOW while readers stay with the old version until the new one covers what they have seen,
    SOAKING while the newest step is too young, HALTED while a person holds it (it was checked all the same), or what
    keeps a check from being made. Conflict NOT_MOVING, or ROUTE_MOVED when somebody else was faster: nothing was done.
    """
    route, migration = active_migration(settings, old.name)
    progress = _followed(settings, route, migration)
    left = _soaks_for(migration, progress)
    since = (migration.begun or route.number) if migration.share else None
    found = checked(settings, old, new, migration.promise, thorough=left <= 0, since=since)
    wrong = [*found.failed, *_overdue(settings, route, found)]
    if wrong:
        back = replace(migration, state="rolled back", share=0, hastened=False)
        return _commit(settings, back, 0, by, f"a check failed: {'; '.join(wrong)}", after=route.number)
    if found.unmade:
        raise found.unmade[0]
    if migration.state == "halted":
        raise TryAgain(
            "HALTED",
            f"{migration.view}: halted at {migration.share} % by {route.changed_by}: {route.why}",
            state="every check is green",
            next_step=f"anabranch migrate resume {migration.view}",
        )
    if migration.share and progress.reached is None:
        raise TryAgain(
            "READERS_FOLLOW",
            f"{migration.view}: readers of v{old.version} have seen {progress.follow}, v{new.version} doesn't cover it",
            state="they stay at what they have seen until it does; every check is green",
            next_step="wait; anabranch status shows how far the stream of the new version is",
            seconds=_LOOK_SECONDS,
        )
    if left > 0:
        raise TryAgain(
            "SOAKING",
            f"{migration.view}: {migration.share} % have v{migration.new}, for {left:.0f} s more at least",
            state="every check is green",
            next_step="advance then",
            seconds=left,
        )
    share = migration.next_share
    if share is None:
        done = replace(migration, state="done", hastened=False)
        return _commit(settings, done, 100, by, "soaked at 100 %", after=route.number)
    why = f"step {migration.steps.index(share) + 1} of {len(migration.steps)}"
    made = _commit(settings, replace(migration, share=share, hastened=False), share, by, why, after=route.number)
    _followed(settings, *active_migration(settings, old.name))
    return made


def _followed(settings: Settings, route: Route, migration: Migration) -> StepProgress:
    """Whether the new version covers by now what any reader had seen of the old one when the route was set."""
    if not migration.share:
        return StepProgress()
    known = step_progress(settings, migration.view, route.number)
    follow = known.follow if known.follow is not None else _cut(settings, migration.view, migration.old)
    reached = known.reached
    if reached is None and covers(_cut(settings, migration.view, migration.new), follow):
        reached = Moment.now()
    return observe(settings, migration.view, route.number, follow=follow, reached=reached)


def _cut(settings: Settings, view: str, version: int) -> Cut:
    try:
        return newest_speed(settings, view, version)[1].newest.note.cut
    except AnabranchError:  # nobody can see anything of it
        return Cut()


def _overdue(settings: Settings, route: Route, found: Checked) -> list[str]:
    """The checks that can't be made for too long, as failing ones."""
    known = step_progress(settings, route.view, route.number)
    if not found.unmade:
        if known.unchecked is not None:
            observe(settings, route.view, route.number, unchecked=None)
        return []
    since = known.unchecked.age() if known.unchecked is not None else None
    if since is None:
        observe(settings, route.view, route.number, unchecked=Moment.now())
        return []
    if since < UNCHECKED_SECONDS:
        return []
    return [f"it can't be checked for {since:.0f} s: {wait.what}" for wait in found.unmade]


def _soaks_for(migration: Migration, progress: StepProgress) -> float:
    """Seconds that the newest step has to be watched still; none where there is no step yet. After a restart of the
    machine, or on another one, it soaks anew."""
    if not migration.share or migration.hastened:
        return 0.0
    age = progress.reached.age() if progress.reached is not None else None
    return migration.soak_seconds - (age or 0.0)


def halt(settings: Settings, view: str, *, by: str, why: str) -> Migration:
    """Hold it where it is: readers keep their versions, checks go on, and one that fails still leads everybody back.
    Conflict NOT_MOVING, ROUTE_MOVED."""
    return _changed(settings, view, by, why, state="halted")


def resume(settings: Settings, view: str, *, by: str, why: str) -> Migration:
    """Go on after a halt; the newest step soaks anew. Conflict NOT_MOVING, ROUTE_MOVED."""
    return _changed(settings, view, by, why, state="moving")


def skip_soak(settings: Settings, view: str, *, by: str, why: str) -> Migration:
    """Let the next step be taken at the next look, its checks too, without waiting until the newest one has soaked.
    Ends a halt as well. Conflict NOT_MOVING, ROUTE_MOVED."""
    return _changed(settings, view, by, why, state="moving", hastened=True)


def _changed(settings: Settings, view: str, by: str, why: str, *, state: State, hastened: bool = False) -> Migration:
    route, migration = active_migration(settings, view)
    made = replace(migration, state=state, hastened=hastened)
    return migration if made == migration else _commit(settings, made, made.share, by, why, after=route.number)


def rollback(settings: Settings, view: str, *, by: str, why: str) -> Migration:
    """Lead all readers back to the old version, of a migration that is done as well. Conflict NOT_MOVING: there is
    none, or it was rolled back already."""
    found = migration_of(settings, view)
    if found is None or found[1].state == "rolled back":
        raise not_moving(view, found)
    route, migration = found
    back = replace(migration, state="rolled back", share=0, hastened=False)
    return _commit(settings, back, 0, by, why, after=route.number)


def _commit(settings: Settings, migration: Migration, share: int, by: str, why: str, after: int) -> Migration:
    shares = {migration.old: 100 - share, migration.new: share}
    made = set_route(settings, migration.view, shares, by=by, why=why, after=after, migration=migration.to_json())
    forget(settings, migration.view, made.number)
    return migration


def check_start(settings: Settings, old: View, new: View, steps: Sequence[int] = STEPS, soak: float = 0) -> None:
    """Whether a migration may begin, before anything is built for it. BadInput VERSIONS_WRONG or STEPS_WRONG; Conflict
    MIGRATION_ACTIVE, or READERS_ELSEWHERE (some have another version than the old one)."""
    if old.name != new.name or old.version == new.version:
        raise BadInput(
            "VERSIONS_WRONG",
            f"{old.name} v{old.version} to {new.name} v{new.version}",
            state="nothing was changed",
            next_step="name two versions of one view",
            field="to",
        )
    if list(steps) != sorted({*steps}) or not steps or steps[0] < 1 or steps[-1] != 100 or soak < 0:
        raise BadInput(
            "STEPS_WRONG",
            f"steps {', '.join(map(str, steps)) or 'none'}, {soak:g} s of soaking",
            state="nothing was changed",
            next_step="steps grow and end with 100, like 1,5,25,50,100; the soak time is 0 or more",
            field="steps",
        )
    found = migration_of(settings, old.name)
    if found is not None and found[1].active:
        raise Conflict(
            "MIGRATION_ACTIVE",
            f"{old.name}: v{found[1].old} to v{found[1].new} is under way, {found[1].share} % are moved",
            state="nothing was changed",
            next_step=f"let it end, or anabranch migrate rollback {old.name}",
        )
    route = found[0] if found else route_of(settings, old.name)
    shares = dict(route.shares) if route else {oldest_version(settings, old.name): 100}
    if shares != {old.version: 100}:
        raise Conflict(
            "READERS_ELSEWHERE",
            f"{old.name}: not all readers have v{old.version}: {route or shares}",
            state="nothing was changed",
            next_step=f"start from the version that they have, or anabranch routes set {old.name} {old.version}=100",
        )


def days_to_build(settings: Settings, old: View, new: View) -> list[date]:
    """The days that readers of the old version have a batch half of, and the new one has none that is certified."""
    if new.kappa:
        return []
    has = publications(batch_table(settings, new.name, new.version))
    certified = newest_certificates(settings, new.name, new.version)
    wanted = publications(batch_table(settings, old.name, old.version))
    return sorted(day for day in wanted if day not in has or day not in certified or not certified[day].equal)
