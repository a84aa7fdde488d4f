"""A migration as its view's route says it: from which version to which, how far, and what its author promises."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from anabranch.change.promotion_checks import Expectations
from anabranch.core.errors import Conflict
from anabranch.core.settings import Settings
from anabranch.serve.routes import ACTIVE, Route, oldest_version, route_history, route_of

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
    promise: Expectations
    state: State = "moving"
    share: int = 0
    hastened: bool = False
    run: str = ""
    """Who carries it out: a run of Airflow's, or nobody in particular."""
    begun: int = 0
    """The number of the route that it began with; 0 where an older version of this code has begun it."""

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
        promise = Expectations(tuple(said["changed"]), tuple(said["checks"]), said["behind"], said["compared"])
        return Migration(**{**content, "steps": tuple(content["steps"]), "promise": promise})


def migration_of(settings: Settings, view: str) -> tuple[Route, Migration] | None:
    """The newest migration of a view, whatever became of it, with its newest route; None when readers are led by hand
    since, or never were."""
    route = route_of(settings, view)
    return (route, Migration.from_json(route.migration)) if route and route.migration else None


def active_migration(settings: Settings, view: str) -> tuple[Route, Migration]:
    """The migration that is under way (it may be halted), and its newest route. Conflict NOT_MOVING where none is."""
    found = migration_of(settings, view)
    if found is None or not found[1].active:
        raise not_moving(view, found)
    return found


def not_moving(view: str, found: tuple[Route, Migration] | None) -> Conflict:
    became = f"{found[1].state} ({found[0].why})" if found else "none was started"
    return Conflict(
        "NOT_MOVING",
        f"{view}: there is no migration to go on with: {became}",
        state="nothing was changed",
        next_step=f"anabranch migrate start {view}",
    )


def of_run(settings: Settings, view: str, run: str) -> tuple[Route, Migration] | None:
    """What became of the migration that ``run`` carries out, with its last route, whatever happened to readers since;
    None: it has not begun."""
    said = [(route, route.migration) for route in route_history(settings, view) if route.migration]
    mine = [(route, Migration.from_json(content)) for route, content in said if content.get("run") == run]
    return mine[-1] if mine else None


def majority_version(settings: Settings, view: str) -> int:
    """The version that most readers have."""
    route = route_of(settings, view)
    return max(route.shares, key=lambda version: route.shares[version]) if route else oldest_version(settings, view)
