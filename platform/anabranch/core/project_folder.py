"""Which folder is the project of this process (ADR 0036)."""

from __future__ import annotations

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


def current_project() -> Path | None:
    """The project of the working directory; otherwise the checkout of this package, if it is one."""
    checkout = Path(__file__).resolve().parents[3]
    return find_project(Path.cwd()) or (checkout if _is_project(checkout) else None)


def project_root() -> Path:
    """The current project. Raises BadInput NO_PROJECT."""
    found = current_project()
    if found is None:
        raise no_project(Path.cwd())
    return found


def no_project(folder: Path) -> BadInput:
    """The error for a folder that is in no project, or in one that declares nothing."""
    return BadInput(
        "NO_PROJECT",
        f"neither {folder} nor a folder above it is an Anabranch project",
        state="nothing was started or written",
        next_step="go to the project's folder, set ANABRANCH_PROJECT, or create a project: anabranch init NAME",
        folder=str(folder),
    )
