"""Which folder is the project of this process (ADR 0036)."""

from __future__ import annotations

import os
import tomllib
from functools import cache
from pathlib import Path

from anabranch.core.errors import BadInput


def find_project(start: Path) -> Path | None:
    """The nearest project folder from ``start`` upwards: its pyproject.toml has a table [tool.anabranch]."""
    return next((folder for folder in (start, *start.parents) if _is_project(folder)), None)


@cache
def _is_project(folder: Path) -> bool:
    try:
        declared = tomllib.loads((folder / "pyproject.toml").read_text())
    except (OSError, ValueError):
        return False
    return "anabranch" in declared.get("tool", {})


def view_files(folder: Path) -> list[Path]:
    """The files below ``folder`` (``spark_jobs/views``) that declare views, in Python or SQL."""
    return sorted(path for kind in ("py", "sql") for path in folder.glob(f"[a-z]*.{kind}"))


def current_project() -> Path | None:
    """The project of the working directory; otherwise the checkout of this package, if it is one."""
    checkout = Path(__file__).resolve().parents[3]
    return find_project(working_folder()) or (checkout if _is_project(checkout) else None)


def working_folder() -> Path:
    """The working directory; the root directory if that was deleted."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return Path(os.sep)


def project_root() -> Path:
    """The current project. Raises BadInput NO_PROJECT."""
    found = current_project()
    if found is None:
        raise no_project(working_folder())
    return found


def check_project(folder: Path) -> Path:
    """``folder``, if it is a project, or a copy of one. Raises BadInput NO_PROJECT."""
    if not _is_project(folder) and not (folder / "spark_jobs").is_dir():
        raise no_project(folder)
    return folder


def no_project(folder: Path) -> BadInput:
    """The error for a folder that is in no project, or in one that declares nothing."""
    return BadInput(
        "NO_PROJECT",
        f"neither {folder} nor a folder above it is an Anabranch project",
        state="nothing was started or written",
        next_step="go to the project's folder, set ANABRANCH_PROJECT, or create a project: anabranch init NAME",
        folder=str(folder),
    )
