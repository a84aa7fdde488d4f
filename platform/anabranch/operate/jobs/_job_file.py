"""Which file holds the program of a job."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from anabranch.core.settings import Settings
from anabranch.operate.jobs._former_copies import FORMER_COPIES


def job_file(settings: Settings, name: str) -> Path:
    """Returns the program with this name: the project's ``spark_jobs/<name>.py`` if it exists and isn't a copy from an
    older version, else ours."""
    own = settings.project / "spark_jobs" / f"{name}.py"
    return own if own.exists() and not is_former_copy(own) else Path(__file__).with_name(f"{name}.py")


def is_former_copy(file: Path) -> bool:
    """Whether ``file`` is what an older version had put into each project, unchanged: it calls that version's
    functions."""
    return sha256(file.read_bytes()).hexdigest() in FORMER_COPIES
