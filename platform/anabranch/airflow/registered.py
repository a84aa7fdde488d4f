"""The registered view that a run is about. Imports the project's views, so only tasks call this, no DAG file."""

from __future__ import annotations

from anabranch.events import Sources
from anabranch.events.declarations import load_declarations
from anabranch.settings import Settings
from anabranch.views.definition import View
from anabranch.views.registry import load_views


def registered(settings: Settings, name: str, version: int | None = None) -> tuple[View, Sources]:
    """One version of a view (the newest for None) and what it reads. BadInput VIEW_UNKNOWN."""
    jobs = settings.project / "spark_jobs"
    declarations = load_declarations(jobs / "contracts")
    registry = load_views(jobs / "views", declarations)
    view = registry.get(name, version)
    return view, registry.topic(view)
