"""The record of a migration, stored in its view's route: versions, progress, and what its author expects."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from anabranch.change.migrate.promotion_checks import Expectations
from anabranch.core.errors import BadInput, Conflict, TryAgain
from anabranch.core.settings import Settings
from anabranch.serve.routes import ACTIVE, Route, oldest_version, route_history, route_of
from anabranch.views import Registry
from anabranch.views.model.handle import ViewHandle

State = Literal["moving", "halted", "done", "rolled back"]
STEPS = (1, 5, 25, 50, 100)


@dataclass(frozen=True, slots=True)
class Migration:
    """A migration from version ``old`` to ``new``. ``share``: the percentage of readers that have the new version.
    ``steps``: the shares to go through; each waits at least ``soak_seconds`` after the one before, unless a person has
    skipped the soak time (``hastened``). ``promise``: what the checks compare with."""

    view: str
    old: int
    new: int
    steps: tuple[int, ...]
    soak_seconds: float
    promise: Expectations
    state: State = "moving"
    share: int = 0
    hastened: bool = False
    run: str = ""
    """The Airflow run that executes it; empty if started manually."""
    begun: int = 0
    """The number of the route that it started with; 0 if an older version of this code started it."""
    certified: int | None = None
    """The sequence number of the newest certificate when it began; None if an older version of this code started
    it."""

    @property
    def active(self) -> bool:
        """Whether it still controls the route: it is moving or halted."""
        return self.state in ACTIVE

    @property
    def next_share(self) -> int | None:
        """The share of the next step; None after the last one."""
        return next((share for share in self.steps if share > self.share), None)

    def __str__(self) -> str:
        steps = ", ".join(f"[{share}]" if share == self.share else str(share) for share in self.steps)
        versions = f"{self.view} v{self.old} to v{self.new}"
        return f"{versions}: {self.state}, {self.share} % have v{self.new} (steps {steps})"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> Migration:
        stored = content["promise"]
        promise = Expectations(tuple(stored["changed"]), tuple(stored["checks"]), stored["behind"], stored["compared"])
        return Migration(**{**content, "steps": tuple(content["steps"]), "promise": promise})


def migration_of(settings: Settings, view: str) -> tuple[Route, Migration] | None:
    """Return the view's newest route and the migration that set it, in whatever state. None if there is no route, or a
    person set the newest one."""
    route = route_of(settings, view)
    return (route, Migration.from_json(route.migration)) if route and route.migration else None


def newest_migration(settings: Settings, view: str) -> tuple[Route, Migration] | None:
    """Return the view's newest migration and the last route that it set, also if a person has changed the route since:
    by ``route set``, or by retiring a version. None if there never was one."""
    for route in reversed(route_history(settings, view)):
        if route.migration:
            return route, Migration.from_json(route.migration)
    return None


def reversible_migration(settings: Settings, view: str) -> tuple[Route, Migration] | None:
    """Return the view's newest route, and the migration that ``rollback`` takes back: also if versions were retired or
    reinstated since, which moves nobody. None if there is none, or a person has set a route since."""
    newer: Route | None = None
    for route in reversed(history := route_history(settings, view)):
        if newer is not None and newer.retired == route.retired:
            return None
        if route.migration:
            return history[-1], Migration.from_json(route.migration)
        newer = route
    return None


def active_migration(settings: Settings, view: str) -> tuple[Route, Migration]:
    """Return the active (moving or halted) migration and its newest route. Raises Conflict NOT_MOVING if there is
    none."""
    newest = migration_of(settings, view)
    if newest is None or not newest[1].active:
        raise not_moving(view, newest)
    return newest


def not_moving(view: str, newest: tuple[Route, Migration] | None) -> Conflict:
    """Return the error NOT_MOVING, with the state of the ``newest`` migration."""
    state = f"{newest[1].state} ({newest[0].why})" if newest else "none was started"
    return Conflict(
        "NOT_MOVING",
        f"{view}: there is no active migration: {state}",
        state="nothing was changed",
        next_step=f"anabranch migrate start {view}",
    )


def of_run(settings: Settings, view: str, run: str) -> tuple[Route, Migration] | None:
    """Return the last route and state of the migration that ``run`` executes, even if the route changed since. None if
    it hasn't started."""
    stored = [(route, route.migration) for route in route_history(settings, view) if route.migration]
    of_this_run = [(route, Migration.from_json(content)) for route, content in stored if content.get("run") == run]
    return of_this_run[-1] if of_this_run else None


def majority_version(settings: Settings, view: str) -> int:
    """Return the version that most readers have."""
    route = route_of(settings, view)
    return max(route.shares, key=lambda version: route.shares[version]) if route else oldest_version(settings, view)


def view_of_readers(settings: Settings, registry: Registry, name: str, version: int | None = None) -> ViewHandle:
    """Return this version of a view; without one, the version that most readers have, or the newest if that one isn't
    declared or nothing can be read yet. Raises BadInput VIEW_UNKNOWN."""
    newest = registry.get(name, version)
    if version is not None:
        return registry.handle(settings, newest)
    with contextlib.suppress(BadInput, TryAgain):
        return registry.handle(settings, registry.get(name, majority_version(settings, name)))
    return registry.handle(settings, newest)
