"""The main programs of processes with a Spark engine.

``landing`` and ``speed`` run until they are stopped; the supervisor starts them. ``rebuild`` and ``replay`` do one unit
of work; Airflow's tasks pass them to spark-submit. Each exits with 0, or with the exit code of its error
(``core.errors.exit_code``) and the error's text on stderr. ``job_file`` returns the file to run.
"""

from __future__ import annotations

from pathlib import Path

from anabranch.core.settings import Settings

__all__ = ["job_file"]


def job_file(settings: Settings, name: str) -> Path:
    """Returns the program with this name: the project's ``spark_jobs/<name>.py`` if it exists, else ours."""
    own = settings.project / "spark_jobs" / f"{name}.py"
    return own if own.exists() else Path(__file__).with_name(f"{name}.py")
