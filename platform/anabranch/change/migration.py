"""Moving the readers of a view to its next version, step by step, with checks between the steps and a way back.

Each step is a commit of the view's route and says what the migration is about, so where it stands is never another
thing than where readers are: whoever is killed in between finds it there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal

from anabranch.change.gates import Promise, failing
from anabranch.errors import BadInput, Conflict, TryAgain
from anabranch.serving.routes import Route, oldest, route_of, set_route
from anabranch.settings import Settings
from anabranch.views.definition import View

State = Literal["moving", "done", "rolled back"]
STEPS = (1, 5, 25, 50, 100)


@dataclass(frozen=True, slots=True)
class Migration:
    """From version ``old`` to ``new``; ``share`` is the percentage of readers who have the new one. ``steps`` are the
    shares to come to, one after the other, each at least ``soak_seconds`` after the one before."""

    view: str
    old: int
    new: int
    steps: tuple[int, ...]
    soak_seconds: float
    promise: Promise
    state: State = "moving"
    share: int = 0

    @property
    def next_share(self) -> int | None:
        """The share of the next step; None behind the last one."""
        return next((share for share in self.steps if share > self.share), None)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> Migration:
        said = content["promise"]
        promise = Promise(tuple(said["changed"]), tuple(said["checks"]), said["behind"], said["compared"])
        return Migration(**{**content, "steps": tuple(content["steps"]), "promise": promise})


def migration_of(settings: Settings, view: str) -> tuple[Route, Migration] | None:
    """The newest migration of a view, whatever became of it, with its newest route; None when readers are led by hand
    since, or never were."""
    route = route_of(settings, view)
    return (route, Migration.from_json(route.migration)) if route and route.migration else None


def start(
    settings: Settings,
    old: View,
    new: View,
    *,
    by: str,
    why: str,
    steps: Sequence[int] = STEPS,
    soak_seconds: float = 600,
    promise: Promise | None = None,
) -> Migration:
    """Write down that ``by`` has approved it. Nobody is moved yet: ``advance`` does that.

    BadInput STEPS_WRONG or CHECK_REFUSED; Conflict MIGRATION_ACTIVE, READERS_ELSEWHERE (some have another version
    than the old one) or CHECKS_FAILED: nothing was changed.
    """
    before = route_of(settings, old.name)
    _check_start(settings, old, new, before)
    if list(steps) != sorted({*steps}) or not steps or steps[0] < 1 or steps[-1] != 100 or soak_seconds < 0:
        raise BadInput(
            "STEPS_WRONG",
            f"steps {', '.join(map(str, steps)) or 'none'}, {soak_seconds:g} s of soaking",
            state="nothing was changed",
            next_step="steps grow and end with 100, like 1,5,25,50,100; the soak time is 0 or more",
            field="steps",
        )
    made = Migration(old.name, old.version, new.version, tuple(steps), float(soak_seconds), promise or Promise())
    wrong = failing(settings, old, new, made.promise, thorough=True)
    if wrong:
        raise Conflict(
            "CHECKS_FAILED",
            f"{old.name} v{new.version} can't take readers: {'; '.join(wrong)}",
            state="nothing was changed; all readers have the old version",
            next_step="mend it, or say with changed columns what is meant to differ",
            failed=tuple(wrong),
        )
    _commit(settings, made, 0, by, why, after=before.number if before else 0)
    return made


def advance(settings: Settings, old: View, new: View, *, by: str) -> Migration:
    """Check, and go one step further; behind the last one the migration is done. A check that fails leads all readers
    back to the old version, at once: the migration that is returned is ``rolled back`` then, and its route says why.

    TryAgain SOAKING while the newest step is too young (it was checked all the same). Conflict NOT_MOVING, or
    ROUTE_MOVED when somebody else was faster: nothing was done.
    """
    route, migration = moving(settings, old.name)
    left = migration.soak_seconds - (datetime.now(UTC) - route.changed_at).total_seconds() if migration.share else 0.0
    wrong = failing(settings, old, new, migration.promise, thorough=left <= 0)
    if wrong:
        back = replace(migration, state="rolled back", share=0)
        return _commit(settings, back, 0, by, f"a check failed: {'; '.join(wrong)}", after=route.number)
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
        return _commit(settings, replace(migration, state="done"), 100, by, "soaked at 100 %", after=route.number)
    why = f"step {migration.steps.index(share) + 1} of {len(migration.steps)}"
    return _commit(settings, replace(migration, share=share), share, by, why, after=route.number)


def rollback(settings: Settings, view: str, *, by: str, why: str) -> Migration:
    """Lead all readers back to the old version, of a migration that is done as well. Conflict NOT_MOVING: there is
    none, or it was rolled back already."""
    found = migration_of(settings, view)
    if found is None or found[1].state == "rolled back":
        raise _not_moving(view, found)
    route, migration = found
    return _commit(settings, replace(migration, state="rolled back", share=0), 0, by, why, after=route.number)


def _commit(settings: Settings, migration: Migration, share: int, by: str, why: str, after: int) -> Migration:
    shares = {migration.old: 100 - share, migration.new: share}
    set_route(settings, migration.view, shares, by=by, why=why, after=after, migration=migration.to_json())
    return migration


def moving(settings: Settings, view: str) -> tuple[Route, Migration]:
    """The migration that is under way, and its newest route. Conflict NOT_MOVING where none is."""
    found = migration_of(settings, view)
    if found is None or found[1].state != "moving":
        raise _not_moving(view, found)
    return found


def _not_moving(view: str, found: tuple[Route, Migration] | None) -> Conflict:
    became = f"{found[1].state} ({found[0].why})" if found else "none was started"
    return Conflict(
        "NOT_MOVING",
        f"{view}: there is no migration to go on with: {became}",
        state="nothing was changed",
        next_step=f"anabranch migrate start {view}",
    )


def _check_start(settings: Settings, old: View, new: View, route: Route | None) -> None:
    if old.name != new.name or old.version == new.version:
        raise BadInput("VERSIONS_WRONG", f"{old.name} v{old.version} to {new.name} v{new.version}", field="new")
    found = migration_of(settings, old.name)
    if found is not None and found[1].state == "moving":
        raise Conflict(
            "MIGRATION_ACTIVE",
            f"{old.name}: v{found[1].old} to v{found[1].new} is under way, {found[1].share} % are moved",
            state="nothing was changed",
            next_step=f"let it end, or anabranch migrate rollback {old.name}",
        )
    shares = dict(route.shares) if route else {oldest(settings, old.name): 100}
    if shares != {old.version: 100}:
        raise Conflict(
            "READERS_ELSEWHERE",
            f"{old.name}: not all readers have v{old.version}: {route or shares}",
            state="nothing was changed",
            next_step=f"start from the version that they have, or anabranch routes set {old.name} {old.version}=100",
        )
