"""Formats of what is on disk: the error for one that is newer than this version knows, and who wrote it (ADR 0046)."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from anabranch.core.errors import BrokenState

WRITTEN_BY: Final = "written_by"
"""The key of the version of this package that wrote a control file, a commit or a backup."""


@cache
def package_version() -> str:
    """The version of this package; empty if it runs without having been installed."""
    try:
        return version("anabranch")
    except PackageNotFoundError:
        return ""


def what_to_install(written_by: object) -> str:
    """The next step for something of a newer format; ``written_by`` as it was read, or empty."""
    if isinstance(written_by, str) and written_by.replace(".", "").isalnum() and len(written_by) < 40:
        return f"install anabranch {written_by}, or a newer one: pip install 'anabranch>={written_by}'"
    return "install the version of Anabranch that wrote it, or a newer one"


def newer_format(where: str | Path, kind: str, stored: int, known: int, written_by: object = "") -> BrokenState:
    """The error FORMAT_NEWER: it says which version of the package to install, if what was read names it."""
    return BrokenState(
        "FORMAT_NEWER",
        f"{where} is a {kind} of format {stored}; this version of Anabranch knows formats up to {known}",
        state="nothing was changed",
        next_step=what_to_install(written_by),
        file=str(where),
        format=stored,
    )
