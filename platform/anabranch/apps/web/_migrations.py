"""The history of a view's route, and its current migration."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from anabranch.apps.web._charts import Area, Axis, shares
from anabranch.apps.web._failures import Failure, attempt
from anabranch.certify.breaking_changes import BreakingChange, breaking_changes
from anabranch.change.migrate.migration_record import Migration, majority_version, reversible_migration
from anabranch.core.settings import Settings
from anabranch.serve.retirement import retirement_text
from anabranch.serve.routes import Route, route_history
from anabranch.serve.served_versions import served_versions

SHOWN = 200
"""Maximum number of route changes that are listed, newest first."""
ACTIONS = {
    "hasten": "Go on now",
    "halt": "Halt",
    "resume": "Resume",
    "rollback": "Roll back",
}
_POSSIBLE = {
    "moving": ("hasten", "halt", "rollback"),
    "halted": ("resume", "hasten", "rollback"),
    "done": ("rollback",),
}


@dataclass(frozen=True, slots=True)
class MigrationPage:
    """``history``: newest first. ``migration``: the one whose route stands, also if versions were retired since; None
    if a person has led readers otherwise since, or if there never was one. ``breaking``: what version ``new`` takes
    away from readers of ``old``."""

    migration: Migration | None
    history: tuple[Route, ...]
    axis: Axis
    areas: tuple[Area, ...]
    old: int = 0
    new: int = 0
    breaking: tuple[BreakingChange, ...] = ()

    def declared(self, change: BreakingChange) -> bool:
        return self.migration is not None and change.column in self.migration.promise.changed

    @property
    def route(self) -> Route | None:
        return self.history[0] if self.history else None

    @property
    def decided(self) -> Route | None:
        """The newest change of readers or of a migration: its reason and author are theirs, not a retirement's."""
        return next((route for route in self.history if not self.retirement(route)), self.route)

    def retirement(self, route: Route) -> str:
        """Which versions this route retires or reinstates; "" if none."""
        older = self.history[self.history.index(route) + 1 :]
        return retirement_text(older[0] if older else None, route)

    @property
    def begun(self) -> Route | None:
        """The route that started the migration: it says who approved it, and why."""
        if self.migration is None:
            return None
        itself, begun = (self.migration.old, self.migration.new, self.migration.run), None
        for route in self.history:
            if self.retirement(route):
                continue
            stored = route.migration or {}
            another = (
                stored.get("old"),
                stored.get("new"),
                stored.get("run", ""),
            ) != itself
            if another or (begun is not None and stored.get("state") == "rolled back"):
                break
            begun = route
        return begun

    @property
    def possible(self) -> list[tuple[str, str]]:
        """The actions that are possible now, each with the text of its button."""
        if self.migration is None or (self.route is not None and self.migration.old in self.route.retired):
            return []
        return [(action, ACTIONS[action]) for action in _POSSIBLE.get(self.migration.state, ())]


def migration_page(settings: Settings, view: str) -> MigrationPage:
    """Reads the view's current route and its history."""
    history = route_history(settings, view)
    standing = reversible_migration(settings, view)
    axis = Axis.over((route.changed_at for route in history), datetime.now(UTC))
    migration = standing[1] if standing else None
    old, new = _versions(settings, view, migration)
    found = attempt(f"columns of {view}", lambda: breaking_changes(settings, view, old, new)) if new > old else ()
    breaking = () if isinstance(found, Failure) else found
    areas = tuple(shares(history, axis))
    return MigrationPage(migration, tuple(reversed(history)), axis, areas, old, new, breaking)


def _versions(settings: Settings, view: str, migration: Migration | None) -> tuple[int, int]:
    """Returns the versions of the migration; without one, what most readers have, and the newest that has a table."""
    if migration is not None:
        return migration.old, migration.new
    now = attempt(f"versions of {view}", lambda: (majority_version(settings, view), served_versions(settings, view)[0]))
    return (0, 0) if isinstance(now, Failure) else now
