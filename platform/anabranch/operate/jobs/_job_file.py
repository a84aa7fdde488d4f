"""Which file holds the program of a job."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

from anabranch.core.settings import Settings

_FORMER = Path(__file__).with_name("former_copies.json")
"""SHA-256 of each program that a project had a copy of before the package had them (until November 2026), by job."""


def job_file(settings: Settings, name: str) -> Path:
    """Returns the program with this name: the project's ``spark_jobs/<name>.py`` if it exists and isn't a copy from an
    older version, else ours."""
    own = settings.project / "spark_jobs" / f"{name}.py"
    return own if own.exists() and not is_former_copy(own) else Path(__file__).with_name(f"{name}.py")


def is_former_copy(file: Path) -> bool:
    """Whether ``file`` is what an older version had put into each project, unchanged: it calls that version's
    functions."""
    known: dict[str, list[str]] = json.loads(_FORMER.read_text())
    return sha256(file.read_bytes()).hexdigest() in known.get(file.stem, ())
