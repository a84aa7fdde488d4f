"""Which file holds the program of a job."""

from __future__ import annotations

from pathlib import Path

from anabranch.core.settings import Settings


def job_file(settings: Settings, name: str) -> Path:
    """Returns the program with this name: the project's ``spark_jobs/<name>.py`` if it exists, else ours."""
    own = settings.project / "spark_jobs" / f"{name}.py"
    return own if own.exists() else Path(__file__).with_name(f"{name}.py")
