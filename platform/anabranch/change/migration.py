"""Moving the readers of a view to its next version, step by step, with checks between the steps and a way back.

Each step is a commit of the view's route and says what the migration is about, so where it stands is never another
thing than where readers are: whoever is killed in between finds it there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, date, datetime
from typing import Any, Literal

from anabranch.batch import publications
from anabranch.change.gates import Promise, failing
from anabranch.errors import AnabranchError, BadInput, Conflict, TryAgain
from anabranch.reconcile.certificates import newest_certificates
from anabranch.serving.routes import ACTIVE, Route, oldest, route_history, route_of, set_route
from anabranch.settings import Settings
from anabranch.tables.layout import batch_table
from anabranch.views.definition import View

State = Literal["moving", "halted", "done", "rolled back"]
STEPS = (1, 5, 25, 50, 100)


@dataclass(frozen=True, slots=True)
class Migration:
    """From version ``old`` to ``new``; ``share`` is the percentage of readers who have the new one. ``steps`` are the
    shares to come to, one after the other, each at least ``soak_seconds`` after the one before, unless a person has
    ``hastened`` the next one."""

    view: str
    old: int
    new: int
    steps: tuple[int, ...]
    soak_seconds: float
    promise: Promise
    state: State = "moving"
    share: int = 0
    hastened: bool = False
    run: str = ""
    """Who carries it out: a run of Airflow's, or nobody in particular."""

    @property
    def active(self) -> bool:
        """Whether it still leads readers: it moves, or somebody has halted it."""
        return self.state in ACTIVE

    @property
    def next_share(self) -> int | None:
        """The share of the next step; None behind the last one."""
        return next((share for share in self.steps if share > self.share), None)

    def __str__(self) -> str:
        steps = ", ".join(f"[{share}]" if share == self.share else str(share) for share in self.steps)
        versions = f"{self.view} v{self.old} to v{self.new}"
        return f"{versions}: {self.state}, {self.share} % have v{self.new} (steps {steps})"

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
    run: str = "",
) -> Migration:
    """Write down that ``by`` has approved it. Nobody is moved yet: ``advance`` does that.

    What ``check_start`` raises; BadInput CHECK_REFUSED, Conflict CHECKS_FAILED: nothing was changed.
    """
    check_start(settings, old, new, steps, soak_seconds)
    before = route_of(settings, old.name)
    soak = float(soak_seconds)
    made = Migration(old.name, old.version, new.version, tuple(steps), soak, promise or Promise(), run=run)
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

    TryAgain SOAKING while the newest step is too young, HALTED while a person holds it (it was checked all the same).
    Conflict NOT_MOVING, or ROUTE_MOVED when somebody else was faster: nothing was done.
    """
    route, migration = moving(settings, old.name)
    left = _soaks_for(route, migration)
    since = route.changed_at if migration.share else None
    try:
        wrong = failing(settings, old, new, migration.promise, thorough=left <= 0, since=since)
    except TryAgain:
        raise
    except AnabranchError as error:  # a table that is gone or broken, say
        wrong = [f"it can't be checked: {error.what}"]
    if wrong:
        back = replace(migration, state="rolled back", share=0, hastened=False)
        return _commit(settings, back, 0, by, f"a check failed: {'; '.join(wrong)}", after=route.number)
    if migration.state == "halted":
        raise TryAgain(
            "HALTED",
            f"{migration.view}: halted at {migration.share} % by {route.changed_by}: {route.why}",
            state="every check is green",
            next_step=f"anabranch migrate resume {migration.view}",
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
    return _commit(settings, replace(migration, share=share, hastened=False), share, by, why, after=route.number)


def _soaks_for(route: Route, migration: Migration) -> float:
    """Seconds that the newest step has to be watched still; none where there is no step yet."""
    if not migration.share or migration.hastened:
        return 0.0
    return migration.soak_seconds - (datetime.now(UTC) - route.changed_at).total_seconds()


def halt(settings: Settings, view: str, *, by: str, why: str) -> Migration:
    """Hold it where it is: readers keep their versions, checks go on, and one that fails still leads everybody back.
    Conflict NOT_MOVING, ROUTE_MOVED."""
    return _changed(settings, view, by, why, state="halted")


def resume(settings: Settings, view: str, *, by: str, why: str) -> Migration:
    """Go on after a halt; the newest step soaks anew. Conflict NOT_MOVING, ROUTE_MOVED."""
    return _changed(settings, view, by, why, state="moving")


def hasten(settings: Settings, view: str, *, by: str, why: str) -> Migration:
    """Let the next step be taken at the next look, its checks too, without waiting until the newest one has soaked.
    Ends a halt as well. Conflict NOT_MOVING, ROUTE_MOVED."""
    return _changed(settings, view, by, why, state="moving", hastened=True)


def _changed(settings: Settings, view: str, by: str, why: str, *, state: State, hastened: bool = False) -> Migration:
    route, migration = moving(settings, view)
    made = replace(migration, state=state, hastened=hastened)
    return migration if made == migration else _commit(settings, made, made.share, by, why, after=route.number)


def rollback(settings: Settings, view: str, *, by: str, why: str) -> Migration:
    """Lead all readers back to the old version, of a migration that is done as well. Conflict NOT_MOVING: there is
    none, or it was rolled back already."""
    found = migration_of(settings, view)
    if found is None or found[1].state == "rolled back":
        raise _not_moving(view, found)
    route, migration = found
    back = replace(migration, state="rolled back", share=0, hastened=False)
    return _commit(settings, back, 0, by, why, after=route.number)


def _commit(settings: Settings, migration: Migration, share: int, by: str, why: str, after: int) -> Migration:
    shares = {migration.old: 100 - share, migration.new: share}
    set_route(settings, migration.view, shares, by=by, why=why, after=after, migration=migration.to_json())
    return migration


def moving(settings: Settings, view: str) -> tuple[Route, Migration]:
    """The migration that is under way (it may be halted), and its newest route. Conflict NOT_MOVING where none is."""
    found = migration_of(settings, view)
    if found is None or not found[1].active:
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
    shares = dict(route.shares) if route else {oldest(settings, old.name): 100}
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


def carried_by(settings: Settings, view: str, run: str) -> tuple[Route, Migration] | None:
    """What became of the migration that ``run`` carries out, with its last route, whatever happened to readers since;
    None: it has not begun."""
    said = [(route, route.migration) for route in route_history(settings, view) if route.migration]
    mine = [(route, Migration.from_json(content)) for route, content in said if content.get("run") == run]
    return mine[-1] if mine else None


def served_now(settings: Settings, view: str) -> int:
    """The version that most readers have."""
    route = route_of(settings, view)
    return max(route.shares, key=lambda version: route.shares[version]) if route else oldest(settings, view)
