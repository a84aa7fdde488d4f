"""Loads what most commands need: the settings and the project's declarations."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anabranch.contracts.model.declarations import Declarations
    from anabranch.core.settings import Settings
    from anabranch.views import Registry


def project_views() -> tuple[Settings, Registry]:
    """Returns the settings and the project's views. Raises BadDefinition."""
    from anabranch.core.settings import load_settings
    from anabranch.views.project import Project

    settings = load_settings()
    return settings, Project(settings).views()


def project() -> tuple[Settings, Declarations]:
    from anabranch.core.settings import load_settings
    from anabranch.views.project import Project

    settings = load_settings()
    return settings, Project(settings).declarations()
