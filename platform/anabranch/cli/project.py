"""What nearly every command begins with: the settings of this process and what the project declares."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anabranch.events import Declarations
    from anabranch.settings import Settings
    from anabranch.views import Registry


def project_views() -> tuple[Settings, Registry]:
    """With the views that the project declares. BadDefinition."""
    from anabranch.views import load_views

    settings, declarations = project()
    return settings, load_views(settings.project / "spark_jobs" / "views", declarations)


def project() -> tuple[Settings, Declarations]:
    from anabranch.events import load_declarations
    from anabranch.settings import load_settings

    settings = load_settings()
    return settings, load_declarations(settings.project / "spark_jobs" / "contracts")
