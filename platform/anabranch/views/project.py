"""Load a project: the folder in which a team declares its topics and views (``settings.project``)."""

from __future__ import annotations

from dataclasses import dataclass

from anabranch.contracts import load_declarations
from anabranch.contracts.model.declarations import Declarations
from anabranch.core.project_folder import no_project
from anabranch.core.settings import Settings
from anabranch.views.model.handle import ViewHandle
from anabranch.views.registry import Registry, load_views, readable_views


@dataclass(frozen=True, slots=True)
class Project:
    """The declarations below ``settings.project``. Each call reads the files again, because a deployment changes them.

    Loading views imports the project's code. Processes that must not run it (DAG files, web servers) use
    ``apps.airflow.static_views`` instead.
    """

    settings: Settings

    def declarations(self) -> Declarations:
        """The topics with their contracts. Raises BadDefinition, BadInput NO_PROJECT."""
        if not self.settings.contracts_folder.is_dir():
            raise no_project(self.settings.project)
        return load_declarations(self.settings.contracts_folder)

    def views(self) -> Registry:
        """All views. Raises BadDefinition when one file can't be loaded."""
        return load_views(self.settings.views_folder, self.declarations())

    def readable_views(self) -> Registry:
        """The views of all files that can be loaded; ``Registry.unread`` names the others."""
        return readable_views(self.settings.views_folder, self.declarations())

    def view(self, name: str, version: int | None = None) -> ViewHandle:
        """One version of a view (None: the newest). Raises BadInput VIEW_UNKNOWN."""
        registry = self.readable_views()
        return registry.handle(self.settings, registry.get(name, version))
