"""The registered view that a run is about. Imports the project's views, so only tasks call this, no DAG file."""

from __future__ import annotations

from anabranch.events import Sources
from anabranch.events.declarations import load_declarations
from anabranch.settings import Settings
from anabranch.views.definition import View
from anabranch.views.registry import Registry, readable_views


def registered(settings: Settings, name: str, version: int | None = None) -> tuple[View, Sources]:
    """One version of a view (the newest for None) and what it reads. BadInput VIEW_UNKNOWN."""
    registry = project_views(settings)
    view = registry.get(name, version)
    return view, registry.topic(view)


def project_views(settings: Settings) -> Registry:
    """All views of the project, without files that can't be read."""
    jobs = settings.project / "spark_jobs"
    return readable_views(jobs / "views", load_declarations(jobs / "contracts"))
