"""How the readers of a view were led, and the migration that leads them now."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from anabranch.apps.web.charts import Area, Axis, shares
from anabranch.change.migration import Migration
from anabranch.core.settings import Settings
from anabranch.serve.routes import Route, route_history

SHOWN = 200
"""How many changes of the route are listed, the newest ones."""
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
class Moving:
    """``history`` is newest first; ``migration`` is what the newest route says of one, None when a person has led
    readers since, or nobody ever has."""

    migration: Migration | None
    history: tuple[Route, ...]
    axis: Axis
    areas: tuple[Area, ...]

    @property
    def route(self) -> Route | None:
        return self.history[0] if self.history else None

    @property
    def begun(self) -> Route | None:
        """The route that the migration began with: who approved it, and why."""
        if self.migration is None:
            return None
        itself, begun = (self.migration.old, self.migration.new, self.migration.run), None
        for route in self.history:
            said = route.migration or {}
            another = (said.get("old"), said.get("new"), said.get("run", "")) != itself
            if another or (begun is not None and said.get("state") == "rolled back"):
                break
            begun = route
        return begun

    @property
    def possible(self) -> list[tuple[str, str]]:
        """What a person may do now: the action, and the text of its button."""
        state = self.migration.state if self.migration else ""
        return [(action, ACTIONS[action]) for action in _POSSIBLE.get(state, ())]


def moving_of(settings: Settings, view: str) -> Moving:
    """What the view's route says, now and before."""
    history = route_history(settings, view)
    said = history[-1].migration if history else None
    axis = Axis.over((route.changed_at for route in history), datetime.now(UTC))
    migration = Migration.from_json(said) if said else None
    return Moving(migration, tuple(reversed(history)), axis, tuple(shares(history, axis)))
