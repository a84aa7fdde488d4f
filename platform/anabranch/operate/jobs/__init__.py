"""Programs with a Spark engine of their own: each is the main of one process.

``landing`` and ``speed`` run until they are told to stop; the supervisor starts them. ``rebuild`` and ``replay`` do one
piece of work; Airflow's tasks give them to spark-submit. Each ends with 0, or with the exit code of its error
(``core.errors.exit_code``) and the error's text on stderr. ``job_file`` says which file is run.
"""

from __future__ import annotations

from pathlib import Path

from anabranch.core.settings import Settings

__all__ = ["job_file"]


def job_file(settings: Settings, name: str) -> Path:
    """The program of this name: the project's own ``spark_jobs/<name>.py`` if it has one, else ours."""
    own = settings.project / "spark_jobs" / f"{name}.py"
    return own if own.exists() else Path(__file__).with_name(f"{name}.py")
