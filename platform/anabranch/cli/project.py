"""What nearly every command begins with: the settings of this process and what the project declares."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anabranch.events import Declarations
    from anabranch.settings import Settings


def project() -> tuple[Settings, Declarations]:
    from anabranch.events import load_declarations
    from anabranch.settings import load_settings

    settings = load_settings()
    return settings, load_declarations(settings.project / "spark_jobs" / "contracts")
