"""The history of a view's route, and its current migration."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from anabranch.apps.web.charts import Area, Axis, shares
from anabranch.change.migration import Migration
from anabranch.core.settings import Settings
from anabranch.serve.routes import Route, route_history

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
    """``history``: newest first. ``migration``: the one in the newest route; None if a person has changed the route
    since, or if there never was one."""

    migration: Migration | None
    history: tuple[Route, ...]
    axis: Axis
    areas: tuple[Area, ...]

    @property
    def route(self) -> Route | None:
        return self.history[0] if self.history else None

    @property
    def begun(self) -> Route | None:
        """The route that started the migration: it says who approved it, and why."""
        if self.migration is None:
            return None
        itself, begun = (self.migration.old, self.migration.new, self.migration.run), None
        for route in self.history:
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
        state = self.migration.state if self.migration else ""
        return [(action, ACTIONS[action]) for action in _POSSIBLE.get(state, ())]


def migration_page(settings: Settings, view: str) -> MigrationPage:
    """Reads the view's current route and its history."""
    history = route_history(settings, view)
    stored = history[-1].migration if history else None
    axis = Axis.over((route.changed_at for route in history), datetime.now(UTC))
    migration = Migration.from_json(stored) if stored else None
    return MigrationPage(migration, tuple(reversed(history)), axis, tuple(shares(history, axis)))
